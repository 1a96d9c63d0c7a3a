"""A model of the user's own: one Python file, under the names that the harness asks a workload by."""
