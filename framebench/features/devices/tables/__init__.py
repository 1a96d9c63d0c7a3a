"""Tables of predictions."""
