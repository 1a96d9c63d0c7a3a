"""The command line. Each module has commands of one kind; `shared.py` has what they share."""
