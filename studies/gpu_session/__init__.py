"""What a session on a GPU counted, and how predictions for it compare."""
