"""The claims ledger: what articles say and users report about memory, against measurements. docs/claims.md tells the rule."""

from framebench.features.claims.ledger import Entry, as_json, ledger, measured_there
from framebench.features.claims.show import detail, parts, table

__all__ = ["Entry", "as_json", "detail", "ledger", "measured_there", "parts", "table"]
