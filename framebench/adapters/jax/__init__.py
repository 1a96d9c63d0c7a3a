"""JAX with Flax NNX and optax: the adapter, its switches by room, and its account of memory."""
