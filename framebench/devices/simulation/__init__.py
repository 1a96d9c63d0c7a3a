"""PyTorch: a step on tensors without numbers, through a model of the caching allocator."""
