"""Parameters, and the way from raw units or the columns of a host to frame coordinates, and back."""

from mkbo_plugins.space.space import ParameterSpace

__all__ = ["ParameterSpace"]
