"""The findings of README, in sentences."""
