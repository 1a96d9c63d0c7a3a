"""How far predictions of GPUs that are not here were off, by kind of prediction and by side."""
