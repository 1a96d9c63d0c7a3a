"""The harness: cases, strategies, worker processes, instruments, records. No framework is imported by the parent process."""
