"""What a saved covariance may hold, so that it is read in about a second and no number in it leads to infinite ones.

Pre-training stays far inside. A covariance outside is neither saved nor loaded.
"""

from typing import NamedTuple

MOST_BYTES = 4 * 2**20
"""Size of a file: about two hundred thousand numbers."""

SUPPORT = 10_000
"""Support vectors of a table."""

TABLES = 16
"""Tables that are summed or chained."""

CAMPAIGNS = 1_000
"""Campaigns of a table."""

COORDINATES = 1_000
"""Parameters without levels, and levels and descriptors of the others, together."""

CONSTRAINTS = 100
"""Constraints of a space."""

DEGREE = 100
"""Degree of a polynomial kernel, and of a kernel given by its coefficients."""

GRID = 1_000
"""Values of a setting that training tries."""

TEXTS = 1_000
"""Remarks on a table."""

CHARACTERS = 10_000
"""Length of a text."""


class Range(NamedTuple):
    """The numbers from `least` to `most`."""

    least: float
    most: float


ROWS = Range(1, 1e9)
"""Rows of a table."""

VALUE = Range(-1e120, 1e120)
"""What is in units of the target, dual coefficients among it."""

WIDTH = Range(0, VALUE.most)
"""Widths in units of the target."""

SPREAD = Range(1e-120, VALUE.most)
"""Standard deviations of the target, and of what is predicted of it."""

ERROR = Range(0, 1e250)
"""Squared errors of the target."""

DIAGONAL = Range(1e-250, 1e250)
"""Values of the re-weighted kernel."""

COORDINATE = Range(-1e9, 1e9)
"""Frame coordinates, which are at most 1 in size within bounds."""

BOUND = Range(-1e300, 1e300)
"""Numbers between which a constraint keeps a sum."""

SCALE = Range(1e-30, 1e30)
"""Scales of a mixture."""

WEIGHT = Range(1e-30, 1e15)
"""Weights of coordinates, and their ratio to the squared length scale."""

SIGMA = Range(1e-15, 1e30)
"""Squared length scale."""

LOG10_SERIES = 250
"""Degree of a series times the logarithm, to base 10, of 1 and the weights together."""

LEAST_COEFFICIENT = 1e-250
"""Least size of a dual coefficient that is not 0."""

SHARE = Range(0, 1e30)
"""Variances of a mixture's components, and coefficients of a series."""

CANCELLED = 1e-30
"""Least spread of predictions, and least root of the mean diagonal, in units of the largest dual coefficient."""
