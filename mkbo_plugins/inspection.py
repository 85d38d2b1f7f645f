"""Checks of a table, under their public name."""

from mkbo_plugins.tables.inspection import Finding, Severity, inspect_table

__all__ = ["Finding", "Severity", "inspect_table"]
