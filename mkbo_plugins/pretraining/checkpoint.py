"""What an interrupted pre-training has found so far, kept in one file.

A cache of calls, such as `joblib.Memory`, would take a folder instead of the file that the user names, could not say
that it belongs to another table, and would read pickles, which can run code.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.training.selection import Cell
from mkbo_plugins.core.training.svr import LeaveOneOut
from mkbo_plugins.covariance.container import digest, read, write
from mkbo_plugins.errors import ArtefactError
from mkbo_plugins.space.parameters import is_finite_number

FORMAT = "mkbo-checkpoint"
MOST_BYTES = 2**28
"""Size of a file that is read: a few hundred grid cells of ten thousand rows."""


def problem_key(parts: Iterable[Any]) -> str:
    """Return a SHA-256 of arrays (by their bytes) and of other values (by their representation)."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()


class Checkpoint:
    """A file of the evidence's coordinate weights and of finished grid cells, replaced as a whole at every step.

    Parameters
    ----------
    path
        The file; made if it does not exist.
    key
        What tells this pre-training from others; a file with another one is refused.
    shape
        Numbers of rows and of coordinates.

    Raises
    ------
    ArtefactError
        If the file cannot be written, or is of another kind or another pre-training.
    """

    def __init__(self, path: Path, key: str, shape: tuple[int, int]) -> None:
        self.path, self.key, self.shape = path, key, shape
        self.evidence: tuple[np.ndarray, bool] | None = None
        self.outcomes: dict[Cell, LeaveOneOut] = {}
        if path.exists():
            self._load()
        self._save()

    def keep_evidence(self, weights: Float[np.ndarray, " d"], converged: bool) -> None:
        """Keep the coordinate weights of the evidence, (d,), and whether its optimiser met its tolerance."""
        self.evidence = weights, converged
        self._save()

    def keep_outcomes(self, outcomes: Mapping[Cell, LeaveOneOut]) -> None:
        """Keep the grid cells finished."""
        self.outcomes = dict(outcomes)
        self._save()

    def _load(self) -> None:
        try:
            content = json.loads(read(self.path, MOST_BYTES).decode("ascii"))
            if content.pop("checksum", None) != digest(content) or content["format"] != FORMAT:
                raise ValueError("format or checksum differ")
            if content["key"] == self.key:
                self._take(content)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ArtefactError(
                f"{self.path} cannot be resumed: it is no checkpoint of a pre-training, or a damaged one ({error}); "
                "name another file"
            ) from error
        if content["key"] != self.key:
            raise ArtefactError(
                f"{self.path} cannot be resumed: it belongs to another table or other settings; name another file, or "
                "delete it to start over"
            )

    def _take(self, content: Mapping[str, Any]) -> None:
        rows, coordinates = self.shape
        if content["evidence"] is not None:
            weights, converged = content["evidence"]
            self.evidence = _numbers(weights, coordinates), bool(converged)
            if not (self.evidence[0] > 0).all():
                raise ValueError("weights are not above 0")
        for C, epsilon, sigma, error, residuals, converged in content["cells"]:
            mean = math.inf if error is None else float(_numbers([error], 1)[0])
            if mean < 0:
                raise ValueError("a squared error is below 0")
            kept = _numbers(residuals, 0 if error is None else rows)
            self.outcomes[C, epsilon, sigma] = LeaveOneOut(mean, kept, bool(converged))

    def _save(self) -> None:
        content = {
            "format": FORMAT,
            "key": self.key,
            "evidence": None if self.evidence is None else [self.evidence[0].tolist(), self.evidence[1]],
            "cells": [
                [
                    *cell,
                    loo.error if math.isfinite(loo.error) else None,
                    loo.residuals.tolist() if math.isfinite(loo.error) else [],
                    loo.converged,
                ]
                for cell, loo in self.outcomes.items()
            ],
        }
        write(self.path, json.dumps(content | {"checksum": digest(content)}).encode("ascii"))


def _numbers(values: Any, count: int) -> Float[np.ndarray, " count"]:
    if len(values) != count or not all(map(is_finite_number, values)):
        raise ValueError(f"not {count} finite numbers")
    return np.array(values, dtype=float)
