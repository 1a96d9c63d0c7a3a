"""Tokens computed one after the other: what is kept of those before, and what that takes."""
