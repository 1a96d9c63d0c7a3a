"""Where peaks go, as tables: their parts, the lower bound, and the rest."""

from framebench.extensions import Feature

FEATURE = Feature("Where peaks go, as tables: their parts, the lower bound, and the rest.", {"tables": "table:comparisons"})
