"""The peak of a case without running it."""
