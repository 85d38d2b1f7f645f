"""The generation node that models with pre-trained covariances."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from ax.adapter.registry import Generators, MBM_X_trans, Y_trans
from ax.core.data import Data
from ax.core.experiment import Experiment
from ax.core.experiment_status import ExperimentStatus
from ax.core.generator_run import GeneratorRun
from ax.core.observation import ObservationFeatures
from ax.generation_strategy.dispatch_utils import get_derelativize_config
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.utils.common.random import with_rng_seed

from mkbo_plugins.ax.acquisition import search_faster
from mkbo_plugins.ax.exhausted import check_points_left
from mkbo_plugins.ax.metrics import covered_metrics, optimization_config
from mkbo_plugins.ax.points import with_failed
from mkbo_plugins.ax.storage import MODEL_NODE, StoredByOptions, attach, recall
from mkbo_plugins.ax.surrogate import pretrained_surrogate_spec
from mkbo_plugins.core.spread import check_spread
from mkbo_plugins.errors import MkboError, TableWarning

LEAST_STANDARDISED = 1e-8
"""Standard deviation of a metric below which Ax's `StandardizeY` takes it for constant."""

STORED_DECIMALS = 10
"""Decimals of data that Ax's JSON and databases keep."""

LEAST_ROUNDED = 1e-5
"""Range of a metric above which the decimals that stores drop are small beside any noise."""


@dataclass(init=False, eq=False, repr=False)
class PretrainedNode(StoredByOptions, GenerationNode):
    """Bayesian optimisation with pre-trained covariances; everything it is stored by is in its fields.

    Parameters
    ----------
    covariances
        Fingerprints by metric name, or under `OBJECTIVE`.
    form, rename, fixed, select
        As for `use_pretrained`.
    seed
        Seed of candidate optimisation, together with the number of suggestions made before.
    directions
        Directions that are known, by the keys of `covariances`, as for `TableDesignNode`.
    """

    covariances: dict[str, str]
    form: str
    rename: dict[str, str]
    fixed: dict[str, Any]
    select: bool
    seed: int
    directions: dict[str, Any]

    def __init__(
        self,
        covariances: dict[str, str],
        form: str,
        rename: dict[str, str],
        fixed: dict[str, Any],
        select: bool,
        seed: int,
        directions: dict[str, Any] | None = None,  # files of earlier versions have none
    ) -> None:
        super().__init__(
            name=MODEL_NODE,
            generator_specs=[
                GeneratorSpec(
                    generator_enum=Generators.BOTORCH_MODULAR,
                    generator_kwargs={
                        "transforms": [*MBM_X_trans, *Y_trans],
                        "transform_configs": get_derelativize_config(derelativize_with_raw_status_quo=True),
                    },
                )
            ],
            should_deduplicate=True,
            suggested_experiment_status=ExperimentStatus.OPTIMIZATION,
        )
        self.covariances = covariances
        self.form = form
        self.rename = rename
        self.fixed = fixed
        self.select = select
        self.seed = seed
        self.directions = {} if directions is None else directions
        self._fitted_data: Data | None = None

    def _fit(self, experiment: Experiment, data: Data | None = None, **kwargs: Any) -> None:
        data = _rounded(experiment.lookup_data() if data is None else data)
        if data.empty:
            raise MkboError(
                "there are no target data yet to model; have the first trials designed, by initial_trials=5 or, from "
                "the table, direction='same' or 'opposite'"
            )
        self.check_options()
        # Once it has a metric, a covariance stays with it, whatever becomes the objective.
        self.directions = covered_metrics(experiment, self.directions)
        self.covariances = covered_metrics(experiment, self.covariances)
        _warn_of_idle(experiment, self.covariances)
        covs = {name: recall(fingerprint, experiment) for name, fingerprint in self.covariances.items()}
        for cov in covs.values():
            attach(experiment, cov)
        if self.form != "stock":
            for name in covs:
                _check_outcomes(data, name)
        signatures = {name: experiment.metrics[name].signature for name in covs}
        spec = pretrained_surrogate_spec(
            {signatures[name]: cov for name, cov in covs.items()},
            experiment.search_space,
            self.form,
            rename=self.rename,
            fixed=self.fixed,
            select=self.select,
            direction={signatures[name]: said for name, said in self.directions.items()},
        )
        arguments = self.generator_spec.generator_kwargs
        # Ax reuses a fitted model only while the specification is the same object.
        if arguments.get("surrogate_spec") != spec:
            arguments["surrogate_spec"] = spec
        if self._fitted_data is None or not self._fitted_data.full_df.equals(data.full_df):
            # A fitted adapter would leave out new data beyond the bounds it has seen.
            self.generator_spec._fitted_adapter = None
        super()._fit(experiment=experiment, data=data, **kwargs)
        search_faster(self.generator_spec._fitted_adapter)
        self._fitted_data = data

    def gen(
        self,
        *,
        experiment: Experiment,
        pending_observations: dict[str, list[ObservationFeatures]] | None,
        **kwargs: Any,
    ) -> GeneratorRun | None:
        """Generate candidates as `GenerationNode.gen`, away from failed trials, with random numbers by stored state."""
        self.check_options()
        check_points_left(experiment, kwargs.get("n"), pending_observations, kwargs.get("fixed_features"))
        pending = with_failed(pending_observations, experiment)
        made = len(self.generation_strategy._generator_runs)
        with with_rng_seed(int(np.random.SeedSequence((self.seed, made)).generate_state(1)[0])):
            return super().gen(experiment=experiment, pending_observations=pending, **kwargs)


def _rounded(data: Data) -> Data:
    """Return data with digits that Ax's stores keep, so that a loaded experiment goes on as it would have.

    They keep `STORED_DECIMALS` decimals, and of large numbers not the last bits, which a fit would turn into digits.
    Metrics that vary too little for so few decimals are left as they are.
    """
    if data.empty:
        return data
    frame = data.full_df.copy()
    of_metric = frame.groupby("metric_name")["mean"]
    varies = of_metric.transform("max") - of_metric.transform("min") >= LEAST_ROUNDED
    for column in ("mean", "sem"):
        stored = frame[column].astype(float).round(STORED_DECIMALS)
        # What overflows in rounding has no decimals.
        stored = stored.where(varies & np.isfinite(stored), frame[column])
        frame[column] = [float(f"{value:.13e}") for value in stored]
    return Data(df=frame)


def _warn_of_idle(experiment: Experiment, names: Iterable[str]) -> None:
    """Warn where nothing that the experiment optimises or constrains has a pre-trained covariance."""
    wanted = optimization_config(experiment).metric_names
    if not wanted.intersection(names):
        warnings.warn(
            f"the experiment optimises {sorted(wanted)}, but its pre-trained covariances are for {sorted(names)}: "
            "suggestions come from Ax's own model; call use_pretrained again to change that",
            TableWarning,
            stacklevel=2,
        )


def _check_outcomes(data: Data, metric: str) -> None:
    """Check that values of a metric are on a scale at which Ax standardises them.

    Raises
    ------
    TableError
        If they are outside what double precision holds with its squares.
    """
    values = data.full_df.loc[data.full_df["metric_name"] == metric, "mean"].dropna().to_numpy(dtype=float)
    check_spread(values, f"metric {metric!r}")
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    if 0 < spread < LEAST_STANDARDISED:
        warnings.warn(
            f"metric {metric!r} has a standard deviation of {spread:.2g}; Ax standardises no metric below "
            f"{LEAST_STANDARDISED:g} and takes its values as they are: multiply them, or take another unit",
            TableWarning,
            stacklevel=2,
        )
