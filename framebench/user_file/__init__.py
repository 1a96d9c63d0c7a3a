"""A user's model file: what is in it, its cases and references, for the commands that take one."""
