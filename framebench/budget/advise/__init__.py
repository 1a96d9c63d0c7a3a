"""Which strategies fit into a budget of memory, from records."""
