"""Symmetrised products: kernels of 2q arguments made of any kernel of two."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import mul

from jaxtyping import Float

from mkbo_plugins.core.arrays import Array
from mkbo_plugins.core.kernels import check_points
from mkbo_plugins.errors import KernelError


def pairings(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, int], ...]]:
    """Yield the (2q - 1)!! ways to put 2q items in pairs, each once."""
    if not items:
        yield ()
        return
    first, *others = items
    for partner in others:
        rest = tuple(item for item in others if item != partner)
        for pairs in pairings(rest):
            yield ((first, partner), *pairs)


@dataclass(frozen=True)
class SymmetrisedProduct:
    r"""The mean over all pairings of 2q arguments of the product of a two-argument kernel over the pairs.

    .. math:: K_{2q}(x_1, ..., x_{2q}) = \frac{1}{(2q - 1)!!} \sum_{pairings} \prod_{(i, j)} K(x_i, x_j)

    Equal to the mean over all (2q)! permutations, which meet each pairing 2^q q! times. With this normalisation
    ``K_2`` is the kernel itself, ``K_2q(x, ..., x) = K(x, x)^q``, and
    ``sum alpha ... alpha K_2q = (alpha' K alpha)^q``. A valid 2q-kernel, but not a free one.

    Parameters
    ----------
    kernel
        Symmetric positive semi-definite function of two arrays of points that broadcasts over their leading shapes,
        (..., d) and (..., d) to (...): a kernel of this package, or any other callable.

    Raises
    ------
    KernelError
        If `kernel` cannot be called.
    """

    kernel: Callable[[Array, Array], Array]

    def __post_init__(self) -> None:
        if not callable(self.kernel):
            raise KernelError(f"kernel must be a function of two points, got {type(self.kernel).__name__}")

    def __call__(self, *points: Array) -> Float[Array, "..."]:
        """Evaluate K_2q at 2q >= 2 points (..., d) whose leading shapes broadcast.

        Raises
        ------
        KernelError
            If the number of points is odd, or their dimensions differ.
        """
        points = check_points(points, None)
        if len(points) % 2:
            raise KernelError(f"a symmetrised product has an even number of arguments, got {len(points)}")
        terms = [
            reduce(mul, (self.kernel(points[i], points[j]) for i, j in pairs))
            for pairs in pairings(tuple(range(len(points))))
        ]
        return sum(terms) / len(terms)

    def gram(self, X: Array, Y: Array | None = None) -> Float[Array, "n m"]:
        """Return the Gram matrix of two arguments, (n, n'), for points (n, d) and (n', d)."""
        return self.kernel(X[:, None, :], (X if Y is None else Y)[None, :, :])
