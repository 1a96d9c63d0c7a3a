"""Define what is measured: cases, profiles, the protocol. It needs only the standard library and NumPy."""
