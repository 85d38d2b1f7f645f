"""GPyTorch mean of a process whose outcome is known to rise, or to fall, with what the tables predict."""

import torch
from gpytorch.means import ConstantMean
from jaxtyping import Float
from torch import Tensor

from mkbo_plugins.botorch.differentiable import components
from mkbo_plugins.botorch.frame import NamedFrame
from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.errors import ArtefactError


class PretrainedMean(ConstantMean):
    """A learned constant plus what tables of known direction say of a standardised outcome that is to be large.

    What is added comes from the artefact, in double precision whatever the dtype of the inputs, and is not refitted;
    `mkbo_plugins.core.components.directed_mean.DirectedMean` has the formula.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    direction
        As for `pretrained_gp`, known for at least one table.
    frame
        Map from raw inputs to frame coordinates, as for `PretrainedKernel`; None where inputs begin with the frame
        coordinates already.
    batch_shape
        Shape of the constants.

    Raises
    ------
    KernelError
        If `direction` is not as described.
    """

    def __init__(
        self,
        cov: Covariance,
        direction: Directions,
        frame: NamedFrame | None = None,
        batch_shape: torch.Size | None = None,
    ) -> None:
        super().__init__(batch_shape=batch_shape or torch.Size())
        self.directed = cov.directed_mean(direction)
        self.frame_dims = len(cov.space.coordinate_names)
        self.frame = frame

    def forward(self, input: Float[Tensor, "*batch n d"]) -> Float[Tensor, "... n"]:
        """Return the mean at inputs (..., n, d), (..., n)."""
        x = input if self.frame is None else self.frame.transform(input)
        z = x[..., : self.frame_dims].double()
        names = tuple(self.directed.weights)
        decisions = components(self.directed.fixed, names, z, None, elementwise=True)
        directed = self.directed.combined(dict(zip(names, decisions, strict=True)))
        return super().forward(input) + directed.to(input.dtype)

    def get_extra_state(self) -> Float[Tensor, " tables"]:
        """Return the sign of each table, which travels in the state dict."""
        return torch.tensor(self.directed.signs, dtype=torch.double)

    def set_extra_state(self, state: Float[Tensor, " tables"]) -> None:
        """Check that a state dict was saved with the same direction.

        Raises
        ------
        ArtefactError
            If it was not.
        """
        if state.tolist() != list(self.directed.signs):
            raise ArtefactError(
                f"this state was saved with the directions {state.tolist()} of the tables (1 same, -1 opposite, 0 "
                f"unknown), but the model has {list(self.directed.signs)}; give direction= as when it was saved"
            )
