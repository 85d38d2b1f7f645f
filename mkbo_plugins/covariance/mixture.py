"""The kernel mixture fitted to a table, a baseline that optimisers use as they use a pre-trained covariance."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from mkbo_plugins.core.evaluation.evaluator import Choice
from mkbo_plugins.core.forms import Form
from mkbo_plugins.core.mixture.kernel_mixture import KernelMixture
from mkbo_plugins.core.mixture.parts import PART, MixtureParts
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.content import Reader, decode_space, encode_space
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.limits import ERROR, SCALE, SHARE
from mkbo_plugins.errors import KernelError
from mkbo_plugins.space.parameters import FRAMES, Frame, FurtherLevels
from mkbo_plugins.space.space import ParameterSpace

FORMS = (PART, "stock")
"""Covariance models that a mixture can be used in."""


@dataclass(frozen=True)
class MixtureCovariance(Covariance, kind="mixture"):
    """A kernel mixture whose parameters a table determined, for the form ``"base"``; made by `pretrain_mixture`.

    It knows what is similar, not what is good: there is no prediction in it.

    Parameters
    ----------
    space
        The table's parameters in raw units.
    frame
        How they map to frame coordinates.
    mixture
        The mixture, over frame coordinates.
    target
        Name of the table's target column.
    loo_mse
        Leave-one-out mean squared error on the table, in squared units of the target.
    """

    space: ParameterSpace
    frame: Frame
    mixture: KernelMixture
    target: str
    loo_mse: float

    @cached_property
    def fixed(self) -> MixtureParts:
        """The mixture as optimisers evaluate it."""
        return MixtureParts(self.mixture)

    @property
    def targets(self) -> tuple[str, ...]:
        """Name of the table's target."""
        return (self.target,)

    def form(self, name: str) -> Form:
        """Return the covariance model called `name`, ``"base"`` or ``"stock"``.

        Raises
        ------
        KernelError
            If it is another one, which needs a machine.
        """
        form = super().form(name)
        if name not in FORMS:
            raise KernelError(f"form must be one of {list(FORMS)} for a kernel mixture, got {name!r}")
        return form

    def with_evaluator(self, choice: Choice = "auto", tolerance: float = 1e-10) -> "MixtureCovariance":
        """Return itself: a mixture is evaluated in one way."""
        return self

    def _widened(self, space: ParameterSpace, new: Mapping[str, FurtherLevels]) -> "MixtureCovariance":
        return replace(self, space=space, mixture=replace(self.mixture, dimension=len(space.coordinate_names)))

    def gram(self, X: Any, X2: Any = None, form: str = PART, *, s: float = 1.0) -> Float[np.ndarray, "n m"]:
        """Return the mixture between points in raw units, (n, n'); `form` is ``"base"`` and `s` has no effect."""
        Z = self.to_coordinates(X)
        return np.asarray(
            self.fixed.components((form,), Z, None if X2 is None else self.to_coordinates(X2))[form].value
        )

    def signs(self, direction: Directions) -> tuple[float, ...]:
        """Return 0, since a mixture predicts nothing; raises a `KernelError` for a direction."""
        signs = super().signs(direction)
        if any(signs):
            raise KernelError("a kernel mixture does not predict what is good; direction must be 'unknown'")
        return signs

    def merit(self, Z: Float[np.ndarray, "n d"], direction: Directions) -> Float[np.ndarray, " n"]:
        """Return 0 for each point, (n,), since a mixture predicts nothing; raises a `KernelError` for a direction."""
        self.signs(direction)
        return np.zeros(len(Z))

    def to_content(self) -> dict[str, Any]:
        """Return what a saved file holds."""
        mixture = {
            "noise": self.mixture.noise,
            "scales": list(self.mixture.scales),
            "variances": list(self.mixture.variances),
        }
        return {
            "frame": self.frame,
            "loo_mse": self.loo_mse,
            "mixture": mixture,
            **encode_space(self.space),
            "target": self.target,
        }

    @classmethod
    def from_content(cls, content: Reader) -> "MixtureCovariance":
        """Return the covariance saved as `content`; raises `MkboError` where it is none."""
        space, mixture = decode_space(content), content.below("mixture")
        return cls(
            space,
            content.text("frame", FRAMES),  # type: ignore[arg-type]
            KernelMixture(
                mixture.numbers("variances", SHARE, 3),  # type: ignore[arg-type]
                mixture.numbers("scales", SCALE, 3),  # type: ignore[arg-type]
                mixture.number("noise", SCALE),
                len(space.coordinate_names),
            ),
            content.text("target"),
            content.number("loo_mse", ERROR),
        )
