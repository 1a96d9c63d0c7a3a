"""All claims, in the order of their sources: the articles' first, then what users reported."""

from __future__ import annotations

from framebench.claims import source_a, source_b, source_b_ranks, source_c, source_d, source_r
from framebench.claims.claim import Registry

IN_ORDER = sorted((*source_b.CLAIMS, *source_b_ranks.CLAIMS), key=lambda claim: int(claim.id[1:]))
REGISTRY = Registry((*source_a.CLAIMS, *IN_ORDER, *source_c.CLAIMS, *source_d.CLAIMS, *source_r.CLAIMS))
