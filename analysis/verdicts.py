"""What the rounds of a comparison say."""
def of(rounds): return []
