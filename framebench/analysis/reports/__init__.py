"""What the records say as tables, for the terminal and for documents."""
