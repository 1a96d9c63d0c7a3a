"""The command line. Each room of it has commands of one kind; `shared.py` is what they have in common."""
