"""Whether memory grows from step to step, and what piles up."""
