"""Which planted faults and bugs the suite notices."""
