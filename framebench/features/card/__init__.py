"""What a measurement on a card has told, as tables."""

from framebench.extensions import Feature

FEATURE = Feature("What a measurement on a card has told, as tables.")
