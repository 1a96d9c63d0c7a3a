"""All commands on versions of a framework."""

from framebench.features.versions import bisect_command, command, newest_command  # noqa: F401  # importing adds them
