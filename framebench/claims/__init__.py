"""Articles' claims and trackers' reports, judged by the records."""
