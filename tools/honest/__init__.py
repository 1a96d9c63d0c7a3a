"""Small models that people write, each right: none of them may be called wrong, and bugs planted in them must be."""
