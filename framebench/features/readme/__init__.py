"""The findings of README, in sentences."""

from framebench.extensions import Feature

FEATURE = Feature("The findings of README, in sentences.", {"words": "in_words:every"})
