"""What a case needs on a device that is not here: told by the programs that decide it there,
without one.
"""
