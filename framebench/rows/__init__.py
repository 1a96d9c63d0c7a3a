"""The rows of the table, one strategy each; `framebench/table.py` puts them together."""
