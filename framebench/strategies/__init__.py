"""The rows of the table, one strategy each; `registry.py` puts them together."""
