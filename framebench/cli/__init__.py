"""The command line. Each module has commands of one kind; `shared.py` is what they have in common."""
