"""The rows of the table, one strategy each; `framebench/strategies/registry.py` puts them together."""
