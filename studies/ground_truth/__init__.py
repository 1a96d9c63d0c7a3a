"""Figures that others published, next to ours."""
