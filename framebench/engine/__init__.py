"""Everything that runs in the parent process: it builds environments, starts workers, and writes
records.
"""
