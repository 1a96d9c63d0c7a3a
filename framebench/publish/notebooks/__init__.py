"""The notebooks of `analysis/notebooks/`, executed on a machine's records."""
