"""The suite's benchmarks for asv: a module per workload, named as its folder in `models/`."""
