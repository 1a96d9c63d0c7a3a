"""The suite's benchmarks as asv finds them: a module per workload, named as its folder in `models/`."""
