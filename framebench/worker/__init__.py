"""Everything that runs inside a framework's environment, one process at a time."""
