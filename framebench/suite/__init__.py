"""Define what is measured: cases, profiles, the protocol, by the standard library and NumPy."""
