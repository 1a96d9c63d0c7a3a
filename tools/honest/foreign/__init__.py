"""Models of packages that nobody here wrote: their peaks in `framebench try` beside those of a plain loop."""
