"""Components between one point, several others and itself, for searches that move the point."""

from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array, array_namespace
from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.components.of_decision import Decided, Symmetric


@dataclass(frozen=True, eq=False)
class OfDecisionFromPoint:
    """A symmetric function of the decision function at a point, and at others (m,) and the point itself."""

    symmetric: Symmetric
    x: Decided
    others: Float[Array, " m"]

    @cached_property
    def value(self) -> Float[Array, "1 n"]:
        """Its value."""
        return self.symmetric.function(*self._pairs)

    def vjp(self, upstream: Float[Array, "k n"], *, second: bool = True) -> tuple[Float[Array, "k d"], None]:
        """Return what `FromPoint.vjp` does."""
        to_x = array_namespace(upstream).sum(upstream * self.symmetric.derivative(*self._pairs), axis=-1)
        return to_x[:, None] * self.x.gradient, None

    @cached_property
    def _pairs(self) -> tuple[Float[Array, "1 1"], Float[Array, "1 n"]]:
        values = array_namespace(self.others).concat([self.others, self.x.values])
        return self.x.values[:, None], values[None, :]


@dataclass(frozen=True, eq=False)
class OfCampaignsFromPoint:
    """The covariance of campaigns from a point (1, d) to others (m, d) and itself."""

    campaigns: Campaigns
    x: Float[Array, "1 d"]
    Y: Float[Array, "m d"]

    @cached_property
    def value(self) -> Float[Array, "1 n"]:
        """Its value."""
        of_x, of_all = self._deviations
        return of_x @ of_all.T

    def vjp(self, upstream: Float[Array, "k n"], *, second: bool = True) -> tuple[Float[Array, "k d"], None]:
        """Return what `FromPoint.vjp` does."""
        xp = array_namespace(upstream)
        to_x = (upstream @ self._deviations[1])[:, None, :]
        points = xp.broadcast_to(self.x, (upstream.shape[0], *self.x.shape))
        return self.campaigns.pull(points, to_x)[:, 0, :], None

    @cached_property
    def _deviations(self) -> tuple[Float[Array, "1 M"], Float[Array, "n M"]]:
        of_x = self.campaigns.deviations(self.x)
        return of_x, array_namespace(of_x).concat([self.campaigns.recent_deviations(self.Y), of_x])
