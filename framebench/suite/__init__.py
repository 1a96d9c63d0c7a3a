"""Define what is measured: cases, profiles, the protocol. Standard library and NumPy alone."""
