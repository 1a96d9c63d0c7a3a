"""How far the numbers can be trusted: studies of the suite itself."""
