"""Sentences that documents have in the place of a table, made of the records."""
