"""A prediction as a record: made once, kept, and taken up again."""
