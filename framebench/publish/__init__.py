"""Everything that is published of the results: which tables and which figures there are."""
