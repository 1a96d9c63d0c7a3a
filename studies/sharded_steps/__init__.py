"""Predictions of one rank under FSDP2 compared with peaks that others measured on H100s."""
