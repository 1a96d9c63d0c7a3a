"""A user's model under every strategy that applies."""
