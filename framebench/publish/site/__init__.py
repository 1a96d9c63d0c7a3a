"""The records as pages, without network or server."""
