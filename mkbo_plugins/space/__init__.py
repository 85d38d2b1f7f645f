"""Parameters, linear constraints on them, and the way from raw units or a host's columns to frame coordinates."""

from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.space.space import ParameterSpace

__all__ = ["LinearConstraint", "ParameterSpace"]
