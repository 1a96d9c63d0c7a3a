"""Two cases as variants of the same blocks: is one slower, or does it need more memory?"""
