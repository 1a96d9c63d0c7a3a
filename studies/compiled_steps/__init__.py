"""Predictions of compiled steps compared with peaks that others measured."""
