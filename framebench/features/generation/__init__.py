"""What a cache of keys and values takes for each token."""

from framebench.extensions import Feature

FEATURE = Feature("What a cache of keys and values takes for each token.", {"documents": "table:documents"})
