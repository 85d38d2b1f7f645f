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
from mkbo_plugins.covariance.container import digest, write
from mkbo_plugins.errors import ArtefactError

FORMAT = "mkbo-checkpoint"


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

    Raises
    ------
    ArtefactError
        If the file cannot be written, or is of another kind or another pre-training.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
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
            content = json.loads(self.path.read_text(encoding="ascii"))
            if content.pop("checksum", None) != digest(content) or content["format"] != FORMAT:
                raise ValueError("format or checksum differ")
            if content["evidence"] is not None:
                weights, converged = content["evidence"]
                self.evidence = np.array(weights, dtype=float), converged
            self.outcomes = {
                (C, epsilon, sigma): LeaveOneOut(
                    math.inf if error is None else error, np.array(residuals, dtype=float), converged
                )
                for C, epsilon, sigma, error, residuals, converged in content["cells"]
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise ArtefactError(
                f"{self.path} cannot be resumed: it is no checkpoint of a pre-training, or a damaged one ({error}); "
                "name another file"
            ) from error
        if content["key"] != self.key:
            raise ArtefactError(
                f"{self.path} cannot be resumed: it belongs to another table or other settings; name another file, or "
                "delete it to start over"
            )

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
