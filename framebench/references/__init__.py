"""Float64 references, which PyTorch makes and JAX confirms."""
