"""Releases of XLA's compiler: older ones, and what changed between them."""
