"""The covariance that Ax's model computes is NumPy's, whatever the experiment calls, bounds or encodes."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from ax.adapter.registry import Generators, MBM_X_trans, Y_trans
from ax.api.client import Client
from ax.api.configs import RangeParameterConfig
from ax.core.arm import Arm
from ax.core.experiment import Experiment
from ax.core.metric import Metric
from ax.core.objective import Objective
from ax.core.optimization_config import OptimizationConfig
from ax.core.parameter import ChoiceParameter, DerivedParameter, FixedParameter, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mkbo_plugins import ParameterSpace
from mkbo_plugins.ax import pretrained_surrogate_spec, use_pretrained
from mkbo_plugins.ax.encoding import encodings, target_names
from mkbo_plugins.ax.inputs import PretrainedInputs
from mkbo_plugins.errors import SpaceError, TableWarning
from tests.ax.experiments import small_covariance
from tests.core.helpers import component_of

FLOAT, INT, TEXT = ParameterType.FLOAT, ParameterType.INT, ParameterType.STRING
GASES = ["Argon", "Nitrogen", "Air"]


def fitted_adapter(space, points, spec):
    """Return Ax's adapter with a fitted model of arbitrary data at points."""
    metric = Metric("y")
    experiment = Experiment(
        search_space=space, optimization_config=OptimizationConfig(Objective(metric=metric, minimize=False))
    )
    rng = np.random.default_rng(0)
    for point in points:
        trial = experiment.new_trial()
        trial.add_arm(Arm(parameters=point))
        trial.mark_running(no_runner_required=True)
        trial.update_trial_data(raw_data={"y": rng.normal()})
        trial.mark_completed()
    return Generators.BOTORCH_MODULAR(
        experiment=experiment,
        data=experiment.lookup_data(),
        surrogate_spec=spec,
        transforms=[*MBM_X_trans, *Y_trans],
        fit_on_init=True,
    )


def gram(adapter, name="reweighted"):
    """Return the part of the covariance between the model's own training points, in the order of trials."""
    model = adapter.generator.surrogate.model
    (dataset,) = adapter.generator.surrogate.training_data
    kernel = model.covar_module
    Z = model.input_transform.transform(dataset.X)[:, : kernel.frame_dims]
    return component_of(kernel.cov.fixed, name, Z.detach().numpy()).value


@st.composite
def search_spaces(draw):
    """Return an Ax search space for the mixed covariance, points in it, their values there, and how to attach it."""
    n = 5
    unit = np.random.default_rng(draw(st.integers(0, 2**16))).uniform(0, 1, (n, 8))
    low, high = sorted(draw(st.lists(st.floats(50, 6000), min_size=2, max_size=2, unique=True)))
    high = max(high, low + 1)
    names = {name: draw(st.sampled_from([name, f"other {name}"])) for name in ("power", "rate", "layers", "gas")}
    rename = {name: other for name, other in names.items() if other != name}
    fixed, parameters, points, table = {}, [], [{} for _ in range(n)], [{} for _ in range(n)]

    def add(name, parameter, values):
        if parameter is not None:
            parameters.append(parameter)
        for i, value in enumerate(values):
            table[i][name] = value
            if parameter is not None:
                points[i][names[name]] = value

    kind = draw(st.sampled_from(["linear", "log", "derived", "choice"]))
    values = (low + unit[:, 0] * (high - low)).tolist()
    if kind == "choice":
        levels = [100.0, 150.0, 900.0, 5000.0]
        ordered = draw(st.booleans())
        choice = ChoiceParameter(names["power"], FLOAT, levels, is_ordered=ordered, sort_values=True)
        add("power", choice, [levels[int(4 * u)] for u in unit[:, 0]])
    elif kind == "derived":
        parameters.append(RangeParameter("helper", FLOAT, low, high))
        add("power", DerivedParameter(names["power"], FLOAT, "2.5 * helper + 10"), [2.5 * v + 10 for v in values])
        for point, value in zip(points, values, strict=True):
            point["helper"] = value
    else:
        add("power", RangeParameter(names["power"], FLOAT, low, high, log_scale=kind == "log"), values)
    rates = (10 ** (-6 + 6 * unit[:, 1])).tolist()
    add("rate", RangeParameter(names["rate"], FLOAT, 1e-6, 1.0, log_scale=draw(st.booleans())), rates)
    kind = draw(st.sampled_from(["int", "log int", "float", "ordered", "fixed", "absent"]))
    layers = (1 + np.floor(6 * unit[:, 2])).astype(int).tolist()
    if kind in ("int", "log int"):
        add("layers", RangeParameter(names["layers"], INT, 1, 9, log_scale=kind == "log int"), layers)
    elif kind == "float":
        add("layers", RangeParameter(names["layers"], FLOAT, 0.0, 6.5), [float(v) for v in layers])
    elif kind == "ordered":
        add("layers", ChoiceParameter(names["layers"], INT, [1, 2, 3, 4, 5, 6], is_ordered=True), layers)
    elif kind == "fixed":
        add("layers", FixedParameter(names["layers"], INT, 4), [4] * n)
    else:
        fixed["layers"] = 3
        rename.pop("layers", None)
        add("layers", None, [3] * n)
    levels = draw(st.permutations(GASES))[: draw(st.integers(2, 3))]
    gas = ChoiceParameter(names["gas"], TEXT, levels, is_ordered=draw(st.booleans()), sort_values=False)
    add("gas", gas, [levels[int(len(levels) * u)] for u in unit[:, 3]])
    if draw(st.booleans()):
        parameters.append(RangeParameter("extra", FLOAT, 0.0, 1.0))
        for point, u in zip(points, unit[:, 4], strict=True):
            point["extra"] = float(u)
    return SearchSpace(draw(st.permutations(parameters))), points, table, rename, fixed


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(search_spaces())
def test_gram_is_that_of_numpy_in_random_search_spaces(case):
    space, points, table, rename, fixed = case
    cov = small_covariance()
    spec = pretrained_surrogate_spec(cov, space, "normalised", rename=rename, fixed=fixed)
    adapter = fitted_adapter(space, points, spec)
    raw = np.column_stack(
        [
            [
                parameter.to_raw(row[parameter.name]) if parameter.indexed_levels else row[parameter.name]
                for row in table
            ]
            for parameter in cov.space.parameters
        ]
    ).astype(float)
    Z = cov.space.to_coordinates(raw, cov.frame)
    for name in ("reweighted", "moment", "normalised"):
        expected = component_of(cov.fixed, name, np.asarray(Z)).value
        scale = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
        assert np.abs(gram(adapter, name) - expected).max() <= 1e-10 * scale.max()


def test_data_outside_the_bounds_do_not_move_the_frame(small_cov):
    """Ax widens the bounds of its models to the data; its own inputs move, the frame does not."""
    space = SearchSpace(
        [
            RangeParameter("power", FLOAT, 1000, 2000),
            RangeParameter("rate", FLOAT, 1e-4, 1e-2, log_scale=True),
            RangeParameter("layers", INT, 1, 6),
            ChoiceParameter("gas", TEXT, GASES, is_ordered=False),
        ]
    )
    inside = [
        {"power": 1200.0, "rate": 1e-3, "layers": 2, "gas": "Air"},
        {"power": 1900.0, "rate": 2e-4, "layers": 5, "gas": "Argon"},
    ]
    outside = [{"power": 5000.0, "rate": 1e-1, "layers": 1, "gas": "Nitrogen"}]
    spec = pretrained_surrogate_spec(small_cov, space)
    without, with_outside = (fitted_adapter(space, points, spec) for points in (inside, inside + outside))
    assert np.allclose(gram(without), gram(with_outside)[:2, :2], rtol=1e-12)
    assert np.allclose(gram(with_outside), small_cov.gram(inside + outside) / small_cov.fixed.mean_diagonal, rtol=1e-10)


def test_relaxed_choices_lie_between_their_levels(small_cov):
    """Ax optimises over fractions of one-hot columns; the corners are exact and the middle is finite and smooth."""
    space = SearchSpace(
        [
            RangeParameter("power", FLOAT, 100, 5000),
            RangeParameter("rate", FLOAT, 1e-4, 1e-2),
            RangeParameter("layers", INT, 1, 6),
            ChoiceParameter("gas", TEXT, GASES, is_ordered=False),
        ]
    )
    points = [{"power": 500.0, "rate": 1e-3, "layers": 2, "gas": gas} for gas in GASES]
    model = fitted_adapter(space, points, pretrained_surrogate_spec(small_cov, space)).generator.surrogate.model
    X = torch.tensor([[500.0, 1e-3, 2.0, 0.2, 0.9, 0.5], [500.0, 1e-3, 2.0, 0.0, 0.0, 0.0]], dtype=torch.double)
    X.requires_grad_(True)
    mean = model.posterior(X).mean
    mean.sum().backward()
    assert torch.isfinite(mean).all()
    assert (X.grad[:, 3:] != 0).any()


def test_form_stock_and_its_limit_are_ax_own_model(small_cov):
    """With s to infinity and b to 0 the transfer form has the posterior of Ax's own model at equal scales."""
    space = SearchSpace(
        [
            RangeParameter("power", FLOAT, 100, 5000),
            RangeParameter("rate", FLOAT, 1e-4, 1e-2, log_scale=True),
            RangeParameter("layers", INT, 1, 6),
            ChoiceParameter("gas", TEXT, GASES, is_ordered=False),
        ]
    )
    raw = small_cov.space.sobol(8, seed=2)
    points = [{**p, "rate": float(np.clip(p["rate"], 1e-4, 1e-2))} for p in small_cov.space.from_raw(raw)]
    spec = {form: pretrained_surrogate_spec(small_cov, space, form) for form in ("transfer", "stock")}
    models = {form: fitted_adapter(space, points, spec[form]).generator.surrogate.model for form in spec}
    own, kernel = models["stock"], models["transfer"].covar_module
    kernel.set_scale("output_scale", 1.0)
    kernel.set_scale("moment_scale", 1e-20)
    kernel.set_scale("feature_scale", 1e20)
    kernel.stock.lengthscale = own.covar_module.lengthscale.detach()
    models["transfer"].likelihood.noise = own.likelihood.noise.detach()
    models["transfer"].mean_module.constant = own.mean_module.constant.detach()
    X = torch.rand(6, own.train_inputs[0].shape[-1], dtype=torch.double, generator=torch.Generator().manual_seed(0))
    X[:, 0], X[:, 1] = 100 + 4000 * X[:, 0], -4 + 2 * X[:, 1]
    ours, theirs = (models[form].posterior(X) for form in ("transfer", "stock"))
    assert torch.allclose(ours.mean, theirs.mean, atol=1e-8)
    assert torch.allclose(ours.variance, theirs.variance, atol=1e-8)


def base_parameters(**replaced):
    parameters = {
        "power": RangeParameter("power", FLOAT, 100, 5000),
        "rate": RangeParameter("rate", FLOAT, 1e-4, 1e-2),
        "layers": RangeParameter("layers", INT, 1, 6),
        "gas": ChoiceParameter("gas", TEXT, GASES, is_ordered=False),
        **replaced,
    }
    return SearchSpace([parameter for parameter in parameters.values() if parameter is not None])


@pytest.mark.parametrize(
    ("space", "settings_", "message"),
    [
        (base_parameters(layers=None), {}, r"lacks pre-trained parameters \['layers'\].*fixed="),
        (base_parameters(), {"fixed": {"layers": 3}}, r"\['layers'\] are both fixed and in the experiment"),
        (base_parameters(), {"fixed": {"speed": 3}}, r"\['speed'\] are not pre-trained"),
        (base_parameters(), {"rename": {"speed": "power"}}, r"rename 'speed': 'power' pairs no name"),
        (base_parameters(gas=RangeParameter("gas", FLOAT, 0, 1)), {}, "'gas' has the levels .* numeric"),
        (base_parameters(layers=FixedParameter("layers", FLOAT, 2.5)), {}, "'layers' takes whole numbers, got 2.5"),
        (base_parameters(power=ChoiceParameter("power", TEXT, ["low", "high"])), {}, "'power' takes finite numbers"),
    ],
)
def test_experiments_that_do_not_fit_are_refused_by_name(small_cov, space, settings_, message):
    with pytest.raises(SpaceError, match=message):
        pretrained_surrogate_spec(small_cov, space, **settings_)


def test_names_are_paired_either_way_round(small_cov):
    space = base_parameters(power=None)
    space.add_parameter(RangeParameter("watts", FLOAT, 1, 9))
    ways = [pretrained_surrogate_spec(small_cov, space, rename=r) for r in ({"watts": "power"}, {"power": "watts"})]
    assert ways[0] == ways[1]
    swapped = base_parameters(layers=RangeParameter("layers", FLOAT, 1, 6))
    with pytest.raises(SpaceError, match="could be meant either way"):
        pretrained_surrogate_spec(small_cov, swapped, rename={"power": "layers"})


def test_encodings_are_read_as_they_are_stored():
    """The mappings are what Ax stores with an experiment; those of earlier experiments must stay readable."""
    space = ParameterSpace.from_dict(
        {
            "sum": (0.0, 100.0),
            "share": (0.0, 1.0),
            "size": {"levels": [1, 10, 100], "ordered": False},
            "gas": GASES,
            "tip": ["new", "used", "worn"],
            "layers": (1, 6, "int"),
        }
    )
    experiment = SearchSpace(
        [
            RangeParameter("part", FLOAT, 1, 10, log_scale=True),
            RangeParameter("rest", FLOAT, 0, 9),
            DerivedParameter("sum", FLOAT, "2.5 * part + 3 * rest + 10"),
            RangeParameter("share", FLOAT, 0.1, 0.9, logit_scale=True),
            ChoiceParameter("size", INT, [1, 10, 100], is_ordered=True, log_scale=True),
            ChoiceParameter("gas", TEXT, ["Air", "Argon"], is_ordered=True, sort_values=False),
            ChoiceParameter("tip", TEXT, ["worn", "new", "used"], is_ordered=False, sort_values=False),
        ]
    )
    tips = [f"tip_OH_PARAM_{i}" for i in range(3)]
    stored = {
        "sum": {"terms": [["part", "log10", 2.5], ["rest", "linear", 3.0]], "intercept": 10.0},
        "share": {"terms": [["share", "logit", 1.0]], "intercept": 0.0},
        "size": {"columns": ["size"], "levels": [1, 10, 100], "knots": [0.0, 1.0, 2.0]},
        "gas": {"columns": ["gas"], "levels": ["Air", "Argon"], "knots": [0.0, 1.0]},
        "tip": {"columns": tips, "levels": ["worn", "new", "used"], "knots": []},
        "layers": {"value": 3},
    }
    fixed = {"layers": 3}
    made = encodings(space, experiment, target_names(space, experiment, {}, fixed), fixed)
    made["sum"]["terms"].sort()
    assert made == stored
    columns = ["gas", *tips, "size", "share", "part", "rest"]
    cov = SimpleNamespace(space=space, frame="unit", fingerprint="")
    inputs = PretrainedInputs(cov, stored, columns, torch.zeros(2, 8), [])
    X = [[0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.5, 4.0], [0.75, 0.1, 0.5, 0.2, 0.25, math.log(3), 1.0, 4.0]]
    X = torch.tensor(X, dtype=torch.double)
    expected = [
        [0.22 + 0.025 * math.sqrt(10), 0.5, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0.4],
        [0.47, 0.75, 0.75, 0.25, 0, 0.75, 0, 0.25, 0.5, 0.2, 0.1, 0.4],
    ]
    assert torch.allclose(inputs.transform(X), torch.tensor(expected).double(), atol=1e-12)


def test_a_range_from_zero_of_a_parameter_on_a_log_scale_is_refused(small_cov):
    client = Client()
    client.configure_experiment(
        [
            RangeParameterConfig(name="power", bounds=(100, 5500), parameter_type="float"),
            RangeParameterConfig(name="rate", bounds=(0, 0.1), parameter_type="float"),
        ]
    )
    client.configure_optimization(objective="y")
    with pytest.raises(SpaceError, match="'rate' begins at 0 here"):
        use_pretrained(client, small_cov, fixed={"layers": 2, "gas": "Air"})


def test_constants_far_outside_the_table_are_warned_of(small_cov):
    client = Client()
    client.configure_experiment([RangeParameterConfig(name="power", bounds=(100, 5500), parameter_type="float")])
    client.configure_optimization(objective="y")
    with pytest.warns(TableWarning, match="'layers' is fixed at 30"):
        use_pretrained(client, small_cov, fixed={"layers": 30, "gas": "Air", "rate": 1e-3})
