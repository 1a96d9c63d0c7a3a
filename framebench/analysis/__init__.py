"""From records to tables, figures and pages: no framework is imported, and nothing is measured."""
