"""Where the peak of a step comes from."""
