"""Right models, and bugs planted in them, under the verification of `framebench try`."""
