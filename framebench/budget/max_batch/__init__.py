"""The largest batch within a budget of memory."""
