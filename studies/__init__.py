"""Research that backs a page of the documentation once.

Each folder is a study: README.md says what it asked and found.
"""
