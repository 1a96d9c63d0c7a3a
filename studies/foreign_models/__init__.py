"""Models of other people's packages: their peaks next to a plain loop's, and verdicts on every
strategy.
"""
