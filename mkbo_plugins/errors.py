"""Errors and warnings: each names the column, row, parameter or file, what was found, and what to do."""


class MkboError(ValueError):
    """Base of every error this package raises about what it was given."""


class SpaceError(MkboError):
    """A parameter space, or values described by it, cannot be used."""


class TableError(MkboError):
    """A table of condensed knowledge cannot be used."""


class KernelError(MkboError):
    """A kernel was built or called with arguments it has no meaning for."""


class FitError(MkboError):
    """Training ended in something no covariance can be built from."""


class ArtefactError(MkboError):
    """A saved covariance is damaged, altered, of another kind, or of a newer version."""


class NothingLeftError(MkboError):
    """All settings of a space, or all candidates, have been tried."""


class MkboWarning(UserWarning):
    """Base of every warning of this package."""


class TableWarning(MkboWarning):
    """The table is usable, but something in it deserves a look."""


class SpaceWarning(MkboWarning):
    """A parameter space is usable, but not quite as asked for."""


class SampleWarning(TableWarning):
    """Only some rows of a long table were trained on, or stand for all of them.

    Parameters
    ----------
    message
        What was done.
    rows
        Numbers of the rows trained on, counting from 0.
    """

    def __init__(self, message: str, rows: tuple[int, ...]) -> None:
        super().__init__(message)
        self.rows = rows


class GridEdgeWarning(MkboWarning):
    """The best grid cell lies on the edge of the grid, so a better one may lie outside."""


class SolverWarning(MkboWarning):
    """A numerical solver stopped before it met its tolerance."""
