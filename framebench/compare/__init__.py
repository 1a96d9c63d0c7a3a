"""Two cases as arms of the same blocks: is one slower, or does it need more memory?"""
