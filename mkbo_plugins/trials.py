"""Trials of a target campaign, under their public name."""

from mkbo_plugins.tables.trials import Trials

__all__ = ["Trials"]
