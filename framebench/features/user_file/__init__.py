"""A file of the user's own with a model: looked into, its cases and references, for the commands that take one."""

from framebench.extensions import Feature

FEATURE = Feature("A file of the user's own with a model, for the commands that take one.")
