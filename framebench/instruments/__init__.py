"""Instruments: each names what its "peak" means. Two instruments never share a ratio."""
