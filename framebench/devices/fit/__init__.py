"""Which strategies fit on a device, and up to which batch."""
