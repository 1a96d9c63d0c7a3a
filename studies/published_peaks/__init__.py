"""Predictions compared with peaks that others measured on real GPUs and published."""
