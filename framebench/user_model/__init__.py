"""A model of the user's own under every strategy that applies."""
