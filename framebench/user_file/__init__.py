"""A file of the user's own with a model: looked into, its cases and references, for the commands that take one."""
