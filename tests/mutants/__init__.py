"""Bugs planted in copies of the source, one at a time: verification must call each of them `wrong`.

`bugs/*.toml` list them, `trial.py` tries one, and `run.py` (`make mutants`) tries them all.
"""
