"""Everything that runs in the parent process.

It builds environments, starts workers, and writes records.
"""
