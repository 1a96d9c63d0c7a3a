"""Where peaks go, as tables: their parts, the lower bound, and the rest."""
