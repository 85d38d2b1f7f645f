r"""p-norm support vector machines on kernels of 2q arguments, ``1/p + 1/(2q) = 1``.

The primal is ``1/p ||w||_p^p + C sum_i loss_i`` for ``g(x) = w'phi(x) + b``. A norm order p near 1 makes weights w
sparse: few features carry the decision function. q = 1, p = 2 is the ordinary machine. In the dual

.. math:: g(x) = \sum_{i_1 ... i_{2q-1}} \alpha_{i_1} ... \alpha_{i_{2q-1}} K_{2q}(x_{i_1}, ..., x) + b.

No tensor of K_2q is built. A free kernel has explicit features ``phi_k = tau_k^(1/q) theta_k``, with which
``s = sum_i alpha_i phi(x_i)`` and ``w = sgn(s) |s|^(2q-1)``. A symmetrised product sums to powers of the quadratic form
``alpha' K_2 alpha``, so that its machine penalises a power of the norm of order 2 in the feature space of K_2. With
q = 1 all of them are the ordinary machine of K_2.

Source: Shilton et al., arXiv 1802.05370, supplement, where the power stands inside the sum of w.
"""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mkbo_plugins.core.kernels import FreeKernel, Polynomial, not_negative, positive
from mkbo_plugins.core.reweighted.normalisation import NormalisedKernel
from mkbo_plugins.core.reweighted.reweighting import ReweightedKernel, reweight
from mkbo_plugins.core.theory.kernel_features import KernelFeatures, free_base, has_finite_features, kernel_features
from mkbo_plugins.core.theory.pnorm_dual import ACCEPTED_GAP, Dual, Solution, solve
from mkbo_plugins.core.theory.symmetrised import SymmetrisedProduct
from mkbo_plugins.errors import KernelError, MkboError, SolverWarning


class _Map(Protocol):
    """What a machine needs to know of the feature space of a kernel."""

    @property
    def separable(self) -> bool:
        """Whether the norm is of order 2q in the features, rather than of order 2."""

    def training(self) -> Float[np.ndarray, "N M"]:
        """Return features of the training points, (N, M)."""

    def decide(self, X: Float[np.ndarray, "n d"], solution: Solution) -> Float[np.ndarray, " n"]:
        """Return w'phi at points (n, d), (n,)."""


@dataclass(frozen=True)
class _Explicit:
    """Features of a free kernel."""

    features: KernelFeatures
    points: Float[np.ndarray, "N d"]
    separable: bool

    def training(self) -> Float[np.ndarray, "N M"]:
        return self.features(self.points)

    def decide(self, X: Float[np.ndarray, "n d"], solution: Solution) -> Float[np.ndarray, " n"]:
        return self.features(X) @ solution.weights


@dataclass(frozen=True)
class _Implicit:
    """Features of a two-argument kernel, known by their inner products only."""

    kernel: FreeKernel | ReweightedKernel | NormalisedKernel | SymmetrisedProduct
    points: Float[np.ndarray, "N d"]
    q: int
    separable = False

    def training(self) -> Float[np.ndarray, "N M"]:
        values, vectors = np.linalg.eigh(self.kernel.gram(self.points))
        kept = values > len(values) * np.finfo(float).eps * values[-1]
        return vectors[:, kept] * np.sqrt(values[kept])

    def decide(self, X: Float[np.ndarray, "n d"], solution: Solution) -> Float[np.ndarray, " n"]:
        used = solution.alpha != 0
        points, alpha = self.points[used], solution.alpha[used]
        if not len(alpha):
            return np.zeros(len(X))
        form = alpha @ self.kernel.gram(points) @ alpha
        return form ** (self.q - 1) * (self.kernel.gram(X, points) @ alpha)


def _feature_map(kernel: Any, X: Float[np.ndarray, "N d"], q: int) -> _Map:
    """Return explicit features where there are finitely many or the norm needs them, else implicit ones."""
    product = isinstance(kernel, SymmetrisedProduct)
    if q > 1 and not product:
        return _Explicit(kernel_features(kernel, X, q), X, separable=True)
    two_argument = kernel.kernel if product else kernel
    if has_finite_features(two_argument, X.shape[1]):
        return _Explicit(kernel_features(two_argument, X, 1), X, separable=False)
    if not product:
        free_base(kernel)  # refuses any other kernel
    return _Implicit(kernel, X, q)


def _order(q: Any) -> int:
    if isinstance(q, bool) or not isinstance(q, (int, np.integer)) or q < 1:
        raise KernelError(f"q must be an integer of at least 1, got {q!r}; the norm order p is always 2q/(2q - 1)")
    return int(q)


class _PNormMachine(BaseEstimator, ABC):
    """What both machines share; `_dual` states their problem."""

    kernel: Any
    q: int
    C: float

    @property
    def p(self) -> float:
        """Order of the norm of the weights, 2q / (2q - 1)."""
        return 2 * self.q / (2 * self.q - 1)

    @abstractmethod
    def _dual(self, features: Float[np.ndarray, "N M"], target: Float[np.ndarray, " N"], separable: bool) -> Dual:
        """Return the dual problem."""

    def _fit(self, X: Float[np.ndarray, "N d"], target: Float[np.ndarray, " N"]) -> None:
        q = _order(self.q)
        kernel = Polynomial(degree=3) if self.kernel is None else self.kernel
        self._map = _feature_map(kernel, X, q)
        features = self._map.training()
        centre = features.mean(axis=0)
        problem = self._dual(features - centre, target, self._map.separable)
        self._solution = solve(problem)
        if isinstance(self._map, _Explicit):
            self.coef_, self.exponents_ = self._solution.weights, self._map.features.exponents
        else:
            self._solution = self._solution._replace(weights=problem.weights(self._solution.alpha))
        self.duality_gap_ = problem.gap(self._solution)
        if self.duality_gap_ > ACCEPTED_GAP:
            warnings.warn(
                f"the solver left a relative duality gap of {self.duality_gap_:.1e}, above {ACCEPTED_GAP:.0e}; try "
                "smaller C, smaller q or inputs of order 1",
                SolverWarning,
                stacklevel=3,
            )
        alpha, w = self._solution
        self.support_ = np.flatnonzero(alpha)
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = alpha[None, self.support_]
        self.intercept_ = np.array([problem.bias(problem.features @ w) - centre @ w])

    def _decide(self, X: Any) -> Float[np.ndarray, " n"]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=float, reset=False)
        return self._map.decide(X, self._solution) + self.intercept_[0]

    def reweighted_kernel(self) -> ReweightedKernel:
        """Return the kernel re-weighted by the support vectors and dual coefficients (Theorem 3).

        Raises
        ------
        KernelError
            If q is above 1, where the weights of the machine's features are not those of a re-weighted kernel, or
            the kernel is not free.
        """
        check_is_fitted(self)
        if self.q != 1:
            raise KernelError(
                f"re-weighting takes the sums s = sum_i alpha_i tau theta(x_i) of K_2, which weigh the features of a "
                f"machine with q=1; at q={self.q} its weights are sgn(s) |s|^{2 * self.q - 1}; fit with q=1"
            )
        kernel = Polynomial(degree=3) if self.kernel is None else self.kernel
        return reweight(kernel, self.support_vectors_, self.dual_coef_[0])


class PNormSVR(RegressorMixin, _PNormMachine):
    r"""Epsilon-insensitive p-norm support vector regression, ``p = 2q / (2q - 1)``.

    Parameters
    ----------
    kernel
        A free kernel, a re-weighted or a normalised one, or a `SymmetrisedProduct`; None means `Polynomial(degree=3)`.
    q
        Half the number of the kernel's arguments, at least 1; 1 is the ordinary machine, 2 has p = 4/3.
    C
        Price of the loss and bound of ``|alpha_i|``, as in scikit-learn (the paper's C/N).
    epsilon
        Half-width of the insensitive tube, in units of the target.

    Attributes
    ----------
    dual_coef_, support_, support_vectors_, intercept_
        Dual coefficients (1, n_SV) of the support vectors, their indices, the support vectors, the bias (1,).
    coef_, exponents_
        Weights w (M,) of the features ``phi_k`` and their exponents (M, d); for free kernels, but those of infinite
        degree at q=1. Of a symmetrised product of a free kernel of finite degree, those of K_2.
    duality_gap_
        Primal minus dual objective relative to the larger of both.

    Notes
    -----
    Features of an unending series end where they are complete at the training points, to 1e-12 of
    ``K_2q(x, ..., x)``; keep inputs to predict at in about the same box.
    """

    def __init__(self, kernel: Any = None, q: int = 2, C: float = 1.0, epsilon: float = 0.1) -> None:
        self.kernel = kernel
        self.q = q
        self.C = C
        self.epsilon = epsilon

    def fit(self, X: Any, y: Any) -> "PNormSVR":
        """Fit to points (N, d) and values (N,).

        Raises
        ------
        MkboError
            If a setting or the kernel cannot be used, or the solver fails.
        """
        X, y = validate_data(self, X, y, dtype=float, y_numeric=True)
        self._fit(X, np.asarray(y, dtype=float))
        return self

    def _dual(self, features: Float[np.ndarray, "N M"], target: Float[np.ndarray, " N"], separable: bool) -> Dual:
        C = positive(self.C, "C")
        bound = np.full(len(target), C)
        return Dual(
            features, target, -bound, bound, C, not_negative(self.epsilon, "epsilon"), _order(self.q), separable
        )

    def predict(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return g at points (n, d), (n,)."""
        return self._decide(X)


class PNormSVC(ClassifierMixin, _PNormMachine):
    r"""Binary p-norm support vector classification with hinge loss, ``p = 2q / (2q - 1)``.

    Parameters
    ----------
    kernel, q, C
        As for `PNormSVR`.

    Attributes
    ----------
    classes_
        The two labels.
    dual_coef_, support_, support_vectors_, intercept_, coef_, exponents_, duality_gap_
        As for `PNormSVR`; dual coefficients carry the sign of their row's label.
    """

    def __init__(self, kernel: Any = None, q: int = 2, C: float = 1.0) -> None:
        self.kernel = kernel
        self.q = q
        self.C = C

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's description of the estimator."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: Any, y: Any) -> "PNormSVC":
        """Fit to points (N, d) and labels (N,) of two classes.

        Raises
        ------
        MkboError
            If there are not two classes, a setting or the kernel cannot be used, or the solver fails.
        """
        X, y = validate_data(self, X, y, dtype=float)
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y")
        if kind != "binary":
            raise MkboError(
                f"Only binary classification is supported. The type of the target is {kind}; wrap the machine in "
                "sklearn.multiclass.OneVsRestClassifier"
            )
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise MkboError(f"two classes are needed, got one class: {self.classes_[0]!r}")
        self._fit(X, 2.0 * codes - 1)
        return self

    def _dual(self, features: Float[np.ndarray, "N M"], target: Float[np.ndarray, " N"], separable: bool) -> Dual:
        C = positive(self.C, "C")
        bounds = np.where(target > 0, 0.0, -C), np.where(target > 0, C, 0.0)
        return Dual(features, target, *bounds, C, 0.0, _order(self.q), separable)

    def decision_function(self, X: Any) -> Float[np.ndarray, " n"]:
        """Return g at points (n, d), (n,), above 0 for the second of `classes_`."""
        return self._decide(X)

    def predict(self, X: Any) -> Shaped[np.ndarray, " n"]:
        """Return the labels at points (n, d), (n,)."""
        positive_side = self._decide(X) > 0
        return self.classes_[positive_side.astype(int)]
