"""The rows of the table, one strategy each; `framebench/suite/registry.py` puts them together."""
