"""The notebooks of `analysis/notebooks/`, executed on a machine's records."""

from framebench.extensions import Feature

FEATURE = Feature("The notebooks of `analysis/notebooks/`, executed on a machine's records.", {"run_notebooks": "run:run"})
