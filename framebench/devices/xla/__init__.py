"""JAX: what XLA plans for a device, compiled ahead of time."""
