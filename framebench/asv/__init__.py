"""What asv loads: an environment for each framework, a resumable session, live progress."""
