"""What is measured: cases, profiles, strategies in each framework, the protocol. Standard library and NumPy alone."""
