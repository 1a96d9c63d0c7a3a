"""Which strategies fit into a budget of memory: the answer, and its tables and sentences."""
