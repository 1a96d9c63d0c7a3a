"""asv on top of the harness: environments, a resumable session, live progress."""
