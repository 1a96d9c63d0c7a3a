"""How often verdicts err: real comparisons whose answer is known."""
