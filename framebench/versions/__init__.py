"""Versions of a framework against each other."""
