"""The claims ledger: what articles say about memory, against what was measured. docs/claims.md tells the rule."""

from analysis.claims.ledger import Entry, as_json, ledger
from analysis.claims.show import detail, table

__all__ = ["Entry", "as_json", "detail", "ledger", "table"]
