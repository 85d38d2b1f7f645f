"""Gaussian process with a pre-trained covariance as scikit-optimize and scikit-learn use regressors."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from sklearn.base import clone
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from skopt.learning import GaussianProcessRegressor

from mkbo_plugins.core.components.directed_mean import DirectedMean
from mkbo_plugins.core.evaluation.value_cache import ValueCache
from mkbo_plugins.core.forms import DEFAULT_FORM
from mkbo_plugins.core.gp.bayes_factor import Verdict, judge
from mkbo_plugins.core.gp.posterior import FormPosterior, PosteriorDensity, prior_mean
from mkbo_plugins.core.mixture.parts import PART
from mkbo_plugins.core.priors import log_bounds, prior_mode
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.covariance.base import Covariance, check_covariance
from mkbo_plugins.covariance.directions import Directions
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.covariance.target import for_target
from mkbo_plugins.errors import FitError, KernelError
from mkbo_plugins.skopt.columns import column_map
from mkbo_plugins.skopt.constraints import warn_of_lost_by_dimensions
from mkbo_plugins.skopt.dimensions import INPUTS, levels_of
from mkbo_plugins.skopt.kernel import PretrainedKernel
from mkbo_plugins.space.parameters import is_finite_number
from mkbo_plugins.tables.ranges import warn_of_units

NUGGET = 1e-6
"""Variance added to known noise, in units of the standardised target's, so that the equations stay solvable."""

LEAST_SPREAD = 1e-12
"""Standard deviation of a target, in units of its largest magnitude, up to which it is constant and not scaled."""


KEPT_FITS = 2
"""Fits that copies know: that of the data, and that of the data with a value that a host made up for a while."""


class PretrainedRegressor(GaussianProcessRegressor):
    """Gaussian process with a pre-trained covariance, of constant mean or of one that tables direct.

    The target is standardised (ddof=1). Hyperparameters maximise the posterior density, with the priors of the BoTorch
    adapter, so that a form is the same model there. `pretrained_regressor` makes regressors.

    Parameters
    ----------
    kernel
        The covariance; its hyperparameters are where the search for better ones begins.
    noise
        ``"gaussian"``: learned from the data; or the known variance of the noise, in squared units of the target.
    inputs
        How columns are fed: ``"normalised"``, ``"raw"``, or ``"auto"`` to tell from the training points: where all lie
        between 0 and 1 they are taken as normalised, and later points that do not are refused.
    n_restarts_optimizer
        Number of further starting points of the search for hyperparameters, drawn from their priors.
    random_state
        Seed of these.
    direction
        As for `pretrained_regressor`.

    Attributes
    ----------
    kernel_
        The covariance with the hyperparameters found.
    noise_
        Variance of the noise, in squared units of the standardised target.
    constant_
        Constant in the mean of the process, in units of the standardised target.
    log_marginal_likelihood_value_
        Log marginal likelihood of the standardised target.
    """

    def __init__(
        self,
        kernel: PretrainedKernel,
        noise: Literal["gaussian"] | float = "gaussian",
        inputs: Literal["auto", "normalised", "raw"] = "auto",
        n_restarts_optimizer: int = 0,
        random_state: Any = None,
        direction: Directions = "unknown",
    ) -> None:
        super().__init__(
            kernel=kernel, noise=noise, n_restarts_optimizer=n_restarts_optimizer, random_state=random_state
        )
        self.inputs = inputs
        self.direction = direction
        self._fits = ValueCache(KEPT_FITS)

    def __sklearn_clone__(self) -> "PretrainedRegressor":
        """Return a copy that is not fitted, and knows what others fitted: hosts clone it for each fit."""
        copy = super().__sklearn_clone__()
        copy._fits = self._fits
        return copy

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        return tags

    def fit(self, X: Any, y: Any) -> "PretrainedRegressor":
        """Fit hyperparameters and condition on data.

        Parameters
        ----------
        X
            Columns of the transformed space, (n, size).
        y
            Values, (n,).

        Raises
        ------
        MkboError
            If columns do not fit the dimensions, or a setting is not as described.
        """
        self._check_settings()
        X, y = validate_data(self, X, y, y_numeric=True, dtype=float)
        columns = self.kernel.columns
        inputs = columns.recognise(X) if self.inputs == "auto" else self.inputs
        columns.check_size(X.shape[1])
        check_spread(y, "y")
        spread = float(np.std(y, ddof=1)) if len(y) > 1 else 0.0
        self.y_train_mean_ = float(y.mean())
        self.y_train_std_ = spread if spread > LEAST_SPREAD * np.abs(y).max() else 1.0
        self.X_train_, self.y_train_ = X.copy(), (y - self.y_train_mean_) / self.y_train_std_
        self.kernel_ = clone(self.kernel).set_params(inputs=inputs)
        if self.n_restarts_optimizer and not isinstance(self.random_state, Integral):
            theta, posterior = self._maximised()  # anew, as starting points are drawn anew
        else:
            arrays = (self.X_train_, self.y_train_, self.kernel_.theta, np.array(self.y_train_std_))
            theta, posterior = self._fits.get(self._settings(), arrays, lambda *_: self._maximised())
        self.kernel_.theta, self.noise_ = self._density().split(theta)
        self._posterior, self._recent = posterior, ValueCache(1)
        process = posterior.process
        self.L_, self.alpha_, self.constant_ = process.factor, process.dual, process.mean
        self.log_marginal_likelihood_value_ = process.log_evidence
        return self

    def _maximised(self) -> tuple[Float[np.ndarray, " p"], FormPosterior]:
        """Return the logarithms of the most likely hyperparameters, with the noise if it is learned, and the posterior.

        Raises
        ------
        FitError
            If a covariance is not positive definite.
        """
        density = self._density()
        start = self.kernel_.theta
        if density.noise is None:
            start = np.append(start, math.log(prior_mode(density.priors[-1])))
        try:
            theta = density.maximise([start, *self._restarts(density)])
            return theta, density.posterior(theta)
        except np.linalg.LinAlgError as error:
            raise FitError(
                f"the covariance of the {len(self.y_train_)} points is not positive definite ({error}); pass "
                "noise='gaussian' or a larger noise variance"
            ) from error

    def _settings(self) -> tuple[Hashable, ...]:
        """Return what a fit depends on besides the data and where its search begins."""
        kernel = self.kernel_
        restarts = (self.n_restarts_optimizer, self.random_state) if self.n_restarts_optimizer else ()
        direction = self.direction if isinstance(self.direction, str) else tuple(self.direction)
        # The posterior that is kept holds on to the fixed parts, whose number can thus not be given to others.
        return (id(kernel.model.fixed), kernel.columns, kernel.form, kernel.inputs, self.noise, direction, *restarts)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        return_mean_grad: bool = False,
        return_std_grad: bool = False,
    ) -> Any:
        """Predict at points (m, size), before a fit from the prior.

        Parameters
        ----------
        X
            Columns of the transformed space.
        return_std, return_cov
            Return standard deviations (m,), or covariances (m, m), behind the means. They are of the function; the
            noise is not in them.
        return_mean_grad, return_std_grad
            Return gradients (size,) in the columns behind these, of the mean and of the standard deviation, at a
            single point.

        Returns
        -------
        array or tuple of arrays
            Means (m,), and what was asked for.

        Notes
        -----
        More than 1,000 points at a time, as candidates of a search are, may be predicted with errors of 1e-6 of the
        covariance, and where that takes many thousand features, of up to 1e-2 of it in corners of the table's space and
        about 1e-4 elsewhere.
        """
        if return_std and return_cov:
            raise KernelError("at most one of return_std and return_cov can be asked for")
        if return_std_grad and not (return_std and return_mean_grad):
            raise KernelError("return_std_grad needs return_std and return_mean_grad")
        if not hasattr(self, "X_train_"):
            if return_mean_grad:
                raise KernelError("gradients are there after a fit only")
            return self._predict_prior(X, return_std, return_cov)
        if return_mean_grad:
            return self._predict_point(X, return_std, return_std_grad)
        X = validate_data(self, X, dtype=float, reset=False)
        if self.inputs == "auto" and self.kernel_.inputs == "normalised":
            self.kernel_.columns.check_normalised(X)
        posterior, points = self._posterior, self.kernel_.points
        if return_cov:
            mean, covariance = posterior.joint(points(X))
            return self._in_units(mean), self.y_train_std_**2 * covariance
        if not return_std:
            return self._in_units(posterior.mean(points(X)))
        # Every acquisition function asks for the same candidates.
        mean, variance = self._recent.get("moments", (X,), lambda kept: posterior.moments(points(kept)))
        return self._in_units(mean), self._deviation(variance)

    def _predict_point(self, X: Any, return_std: bool, return_std_grad: bool) -> tuple[Float[np.ndarray, "..."], ...]:
        """Predict with gradients; called at every step of a search, so that nothing but the shape is checked."""
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or len(X) != 1:
            raise KernelError(f"gradients are there at one point (1, size) at a time only, got shape {X.shape}")
        mean, variance, gradients = self._posterior.at(self.kernel_.points(X))
        of_mean, of_variance = self.kernel_.to_columns(X[0], gradients.frame, gradients.stock)
        std = self._deviation(variance)
        found = [self._in_units(mean), *([std] if return_std else []), self.y_train_std_ * of_mean]
        if return_std_grad:
            found.append(self.y_train_std_**2 * of_variance / (2 * std) if std[0] > 0 else 0 * of_variance)
        return tuple(found)

    def _predict_prior(self, X: Any, return_std: bool, return_cov: bool) -> Any:
        self._check_settings()
        X = check_array(X, dtype=float)
        inputs = self.kernel.columns.recognise(X) if self.inputs == "auto" else self.inputs
        kernel = clone(self.kernel).set_params(inputs=inputs)
        mean = prior_mean(self._directed(), kernel.points(X))
        if return_cov:
            return mean, kernel(X)
        return (mean, np.sqrt(kernel.diag(X))) if return_std else mean

    def _in_units(self, mean: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        return self.y_train_mean_ + self.y_train_std_ * mean

    def _deviation(self, variance: Float[np.ndarray, " m"]) -> Float[np.ndarray, " m"]:
        # Rounding can bring a variance below 0 where the data leaves nothing unexplained.
        return self.y_train_std_ * np.sqrt(np.maximum(variance, 0.0))

    def log_marginal_likelihood(
        self, theta: Any = None, eval_gradient: bool = False, clone_kernel: bool = True
    ) -> float | tuple[float, Float[np.ndarray, " p"]]:
        """Return the log marginal likelihood of the standardised training target.

        Parameters
        ----------
        theta
            Logarithms of the covariance's hyperparameters and, if it is learned, of the noise variance; None means
            those found.
        eval_gradient
            Return the gradient in `theta` too.
        clone_kernel
            Of no effect: nothing is changed in any case.
        """
        if theta is None:
            if eval_gradient:
                raise KernelError("eval_gradient needs theta")
            return self.log_marginal_likelihood_value_
        density = self._density()
        if eval_gradient:
            return density.log_evidence(np.asarray(theta, dtype=float))
        return density.posterior(np.asarray(theta, dtype=float)).process.log_evidence

    def verdict(self) -> Verdict:
        """Return whether the table helps and the form suits, as `PretrainedCovariance.verdict` judges it.

        It rests on the points fitted to.

        Raises
        ------
        MkboError
            If there are too few points to judge by.
        """
        check_is_fitted(self, "X_train_")
        columns = self.kernel_.columns
        points = replace(columns, stock=columns.names).points(self.X_train_, self.kernel_.inputs)
        noise, as_used = self._known_noise(), self.kernel_.points(self.X_train_)
        return judge(self.kernel_.cov.fixed, points, self.y_train_, noise, self.kernel_.form, as_used)

    def _density(self) -> PosteriorDensity:
        points = self.kernel_.points(self.X_train_)
        return PosteriorDensity(self.kernel_.model, points, self.y_train_, self._known_noise(), self._directed())

    def _directed(self) -> DirectedMean | None:
        """Return the mean beside the constant: the host minimises, so that good experiments have small values."""
        cov = self.kernel.cov
        known = cov.is_directed(self.direction, self.kernel.form)
        return cov.directed_mean(self.direction, minimised=True) if known else None

    def _known_noise(self) -> float | None:
        """Return the variance of the noise in units of the standardised target's, None if it is learned."""
        return None if self.noise == "gaussian" else float(self.noise) / self.y_train_std_**2 + NUGGET

    def _restarts(self, density: PosteriorDensity) -> list[Float[np.ndarray, " p"]]:
        rng = check_random_state(self.random_state)
        means = np.array([prior.log_mean for prior in density.priors])
        spreads = np.array([prior.log_spread for prior in density.priors])
        draws = rng.normal(means, spreads, (self.n_restarts_optimizer, len(means)))
        return list(np.clip(draws, *log_bounds(density.priors).T))

    def _check_settings(self) -> None:
        if not isinstance(self.kernel, PretrainedKernel):
            raise KernelError(f"kernel must be a PretrainedKernel, got {type(self.kernel).__name__}")
        if not (isinstance(self.noise, str) and self.noise == "gaussian") and not (
            is_finite_number(self.noise) and self.noise >= 0
        ):
            raise KernelError(f"noise must be 'gaussian' or a variance of at least 0, got {self.noise!r}")
        if not isinstance(self.inputs, str) or self.inputs not in ("auto", *INPUTS):
            raise KernelError(f"inputs must be 'auto' or one of {list(INPUTS)}, got {self.inputs!r}")
        self.kernel.cov.is_directed(self.direction, self.kernel.form)


def pretrained_regressor(
    cov: Covariance,
    dimensions: Any,
    form: str = DEFAULT_FORM,
    names: Sequence[str] | Mapping[str, str] | None = None,
    *,
    fixed: Mapping[str, Any] | None = None,
    noise: Literal["gaussian"] | float = "gaussian",
    inputs: Literal["auto", "normalised", "raw"] = "auto",
    n_restarts_optimizer: int = 0,
    random_state: Any = None,
    direction: Directions = "unknown",
) -> PretrainedRegressor:
    """Return a regressor with a pre-trained covariance, to be passed as ``base_estimator``.

    If outcomes are noisy, pass ``acq_func="LCB"`` to the optimiser: the host's EI and PI, alone or within
    ``"gp_hedge"``, improve on the smallest value seen, which noise may have made, and no regressor can change that.

    Parameters
    ----------
    cov
        The pre-trained covariance.
    dimensions
        The dimensions the optimiser gets: a `Space`, a sequence of dimensions, or the dictionary of `BayesSearchCV`.
        They are matched to the table's parameters by name; those that the table lacks are left to the stock
        covariance. Run one `BayesSearchCV` for each of several sub-spaces: one would hand this regressor the columns
        of them all, without names, so that another sub-space is refused only if its columns are not as many.
    form
        Name of the form, as `mkbo_plugins.core.forms` describes them; ``"stock"`` turns the covariance off and leaves
        a squared exponential with a length scale for each input.
    names
        Names of the dimensions in their order where they have none, or a mapping of their names to the table's, such
        as ``{"svc__C": "C"}``.
    fixed
        Values of pre-trained parameters that the target keeps constant, by name.
    noise
        ``"gaussian"``: learned from the data; or the known variance of the noise, in squared units of the target. What
        `gp_minimize` is told of noise never reaches a regressor passed to it. Pass ``0.0`` where an outcome never
        differs when it is measured again: learned noise is small then but not nothing, a best point at a bound stays
        worth measuring again, and the host takes a random point instead, with the warning that the objective has been
        evaluated there before.
    inputs
        ``"auto"``, or ``"raw"`` for an `Optimizer` with EIps or PIps in case all bounds lie between 0 and 1, where
        numbers do not tell.
    n_restarts_optimizer
        Number of further starting points of the search for hyperparameters.
    random_state
        Seed of these; that of `gp_minimize` never reaches a regressor passed to it.
    direction
        ``"same"`` if a large table target speaks for a good experiment, which here is one with a small value, as
        scikit-optimize minimises; ``"opposite"`` if a small one does, as where both are losses; ``"unknown"`` to leave
        the sign to the data. It is the word that `PretrainedCovariance.starting_points` takes. Where it is known, the
        mean of the standardised value is a learned constant minus, or plus, half the table's standardised prediction,
        as in `mkbo_plugins.botorch.pretrained_gp`. Of several tables, one word for all or one for each.

    Returns
    -------
    PretrainedRegressor
        An estimator that is not fitted yet.

    Raises
    ------
    MkboError
        If dimensions, covariance or settings do not fit together; among them a known direction and ``form="stock"`` or
        a kernel mixture, which know of none.

    Warns
    -----
    TableWarning
        If bounds of a dimension are unlikely to be in the units of the table; see
        `mkbo_plugins.tables.ranges.warn_of_units`. If the table's space has constraints, since dimensions have none;
        see `space_constraint` for what the host can keep. If a dimension has levels that the table lacks; see
        `PretrainedCovariance.with_levels`.
    """
    check_covariance(cov)
    cov = for_target(cov, levels_of(dimensions, names, fixed))
    columns = column_map(cov, dimensions, cov.form(form), names, fixed)
    targets = {d.name: d.parameter for d in columns.dimensions if d.name in cov.space.names}
    warn_of_units(cov.space, {name: target for name, target in targets.items() if target is not None}, fixed)
    warn_of_lost_by_dimensions(cov.space, columns)
    kernel = PretrainedKernel(cov, columns, form)
    priors = kernel.model.priors
    scales = len(kernel.model.form.hyperparameters)
    kernel.theta = np.array(
        [prior.log_mean for prior in priors[:scales]] + [math.log(prior_mode(p)) for p in priors[scales:]]
    )
    regressor = PretrainedRegressor(kernel, noise, inputs, n_restarts_optimizer, random_state, direction)
    regressor._check_settings()
    return regressor


def mixture_regressor(
    mixture: MixtureCovariance,
    dimensions: Any,
    names: Sequence[str] | Mapping[str, str] | None = None,
    **options: Any,
) -> PretrainedRegressor:
    """Return a regressor with a kernel mixture fitted to a table, in the only form that it has.

    Parameters
    ----------
    mixture, dimensions, names
        As `cov`, `dimensions` and `names` of `pretrained_regressor`.
    **options
        Further keyword arguments of it.
    """
    return pretrained_regressor(mixture, dimensions, PART, names, **options)
