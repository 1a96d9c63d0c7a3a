"""What a measurement on a card has told, as tables."""
