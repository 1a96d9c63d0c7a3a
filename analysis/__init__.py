"""Reads records, never a framework: tables and figures, generated from what was measured."""
