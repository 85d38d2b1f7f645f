"""Held-out predictions of a table, under their public name."""

from mkbo_plugins.pretraining.held_out import HeldOut, held_out

__all__ = ["HeldOut", "held_out"]
