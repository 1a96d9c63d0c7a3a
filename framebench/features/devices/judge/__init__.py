"""Predictions held against memory that others measured on real cards: `framebench dev judge`, docs/devices.md."""
