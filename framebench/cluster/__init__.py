"""Many machines: units of a run, Slurm, and records put together."""
