"""What asv sees: one class per workload and framework, one number per metric. The rest happens in `framebench`."""
