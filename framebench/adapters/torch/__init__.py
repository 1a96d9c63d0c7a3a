"""PyTorch: the adapter, its switches by room, and its account of memory."""
