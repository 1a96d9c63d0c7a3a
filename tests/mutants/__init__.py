"""Bugs planted in copies of the source, one at a time: verification must call each of them `wrong`.

`bug.py` says what one is, `planted_*.py` list them, `run.py` (`make mutants`) tries them,
`serve.py` makes that fast.
"""
