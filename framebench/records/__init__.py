"""The record of a measured case, where it lies, and where it came from."""
