"""Levels described by numbers in real hosts: names in, the table's frame and descriptors in the stock covariance."""

import warnings

import numpy as np
import pytest

from mkbo_plugins import ParameterSpace, pretrain
from mkbo_plugins.errors import SpaceError, TableWarning
from mkbo_plugins.space.named import NamedColumns
from tests.test_described import FURTHER, PHOSPHINES, SPACE, at, table

KNOWN = ["PCy3", "PMe2Ph", "PPh3"]
LEVELS = [*KNOWN, *FURTHER]
TARGET = ParameterSpace.from_dict(
    {"ligand": {"levels": {level: (PHOSPHINES | FURTHER)[level] for level in LEVELS}}, "heat": (30.0, 70.0)}
)


@pytest.fixture(scope="module")
def cov():
    return pretrain(table(), "rate", SPACE, C=20.0, sigma=2.0, epsilon=0.02, ard=False, progress=False)


@pytest.fixture(scope="module")
def wide(cov):
    return cov.with_levels({"ligand": FURTHER})


def stock_of(points):
    """Return descriptors of ligands, scaled by the table's space, by hand."""
    rows = PHOSPHINES | FURTHER
    return np.array(
        [[(rows[p["ligand"]]["pKa"] - 2.73) / 8.67, (rows[p["ligand"]]["cone"] - 122) / 60] for p in points]
    )


def points_of(n, levels=LEVELS):
    rng = np.random.default_rng(3)
    return [{"ligand": levels[i % len(levels)], "heat": float(h)} for i, h in enumerate(rng.uniform(30, 70, n))]


def outcome(point):
    row = (PHOSPHINES | FURTHER)[point["ligand"]]
    return round(float(np.sin(row["pKa"] / 3) + point["heat"] * (row["cone"] - 100) / 4000), 4)


@pytest.mark.parametrize("form", ["base", "normalised", "two_layer"])
def test_botorch(cov, wide, form):
    torch, botorch = pytest.importorskip("torch"), pytest.importorskip("mkbo_plugins.botorch")
    points = points_of(8)
    X = torch.tensor(TARGET.to_raw(points))
    with warnings.catch_warnings():
        warnings.simplefilter("error", TableWarning)  # a level that is described is no unknown one
        model = botorch.pretrained_gp(cov, X, torch.rand(8, 1, dtype=torch.double), form, space=TARGET)
    kernel = model.covar_module
    with torch.no_grad():
        Z = kernel.frame(X)[:, :3]
        np.testing.assert_allclose(Z, wide.to_coordinates(points), atol=1e-14)
        value = botorch.PretrainedKernel(wide, form).double()(Z).to_dense()
    np.testing.assert_allclose(value, wide.gram(points, form=form), atol=1e-10)


def test_botorch_knows_a_further_level_by_its_likes():
    """The host predicts for a ligand that neither the table nor the campaign has seen."""
    torch, botorch = pytest.importorskip("torch"), pytest.importorskip("mkbo_plugins.botorch")
    from mkbo_plugins.botorch import suggest
    from mkbo_plugins.trials import Trials

    cov = pretrain(table(), "rate", SPACE, trainer="gp", progress=False)
    points = points_of(6, KNOWN)
    X, y = TARGET.to_raw(points), np.array([outcome(p) for p in points])
    model = botorch.pretrained_gp(cov, torch.tensor(X), torch.tensor(y)[:, None], space=TARGET)
    model.eval()
    new = at("PBu3", heat=33.0) + at("PBu3", heat=60.0)
    found = model.posterior(torch.tensor(TARGET.to_raw(new))).mean[:, 0].tolist()
    np.testing.assert_allclose(found, [outcome(p) for p in new], atol=0.15)
    advice = suggest(cov, Trials(X, y, X[:0]), 2, space=TARGET)
    assert {s.point["ligand"] for s in advice.suggestions} <= set(LEVELS)


def test_scikit_optimize(cov, wide):
    skopt = pytest.importorskip("skopt")
    from skopt.space import Categorical, Real

    from mkbo_plugins.skopt import pretrained_regressor

    dimensions = [Categorical(LEVELS, name="ligand"), Real(30.0, 70.0, name="heat")]
    with pytest.raises(SpaceError, match=r"\['PBu3'\] need their descriptors .*cov\.with_levels"):
        pretrained_regressor(cov, dimensions)
    points = points_of(7)
    for form in ("base", "normalised", "two_layer"):
        regressor = pretrained_regressor(wide, dimensions, form)
        optimiser = skopt.Optimizer(dimensions, regressor, random_state=0)
        columns = optimiser.space.transform([[p["ligand"], p["heat"]] for p in points])
        np.testing.assert_allclose(regressor.kernel(columns), wide.gram(points, form=form), atol=1e-10)
    regressor = pretrained_regressor(wide, dimensions)
    stock = regressor.kernel.columns.points(columns, "normalised").stock
    np.testing.assert_allclose(stock[:, :2], stock_of(points), atol=1e-12)
    optimiser = skopt.Optimizer(dimensions, regressor, n_initial_points=4, random_state=0, acq_optimizer="sampling")
    for _ in range(6):
        x = optimiser.ask()
        optimiser.tell(x, -outcome({"ligand": x[0], "heat": x[1]}))
    assert optimiser.ask()[0] in LEVELS


def test_ax(cov, wide):
    pytest.importorskip("ax")
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    from mkbo_plugins.ax import use_pretrained

    client = Client(random_seed=0)
    client.configure_experiment(
        [
            ChoiceParameterConfig("ligand", LEVELS, parameter_type="str", is_ordered=False),
            RangeParameterConfig("heat", (30.0, 70.0), parameter_type="float"),
        ]
    )
    client.configure_optimization("rate")
    with pytest.raises(SpaceError, match=r"\['PBu3'\] need their descriptors"):
        use_pretrained(client, cov)
    use_pretrained(client, wide, "transfer", initial_trials=4, direction="same")
    points = points_of(6)
    for point in points:
        client.complete_trial(client.attach_trial(point), {"rate": outcome(point)})
    ((_, point),) = client.get_next_trials(1).items()
    assert point["ligand"] in LEVELS
    model = client._generation_strategy.adapter.generator.surrogate.model
    kernel, transform = model.covar_module, model.input_transform
    (dataset,) = client._generation_strategy.adapter.generator.surrogate.training_data
    inputs = transform.transform(dataset.X).detach()
    np.testing.assert_allclose(inputs[:, :3], wide.to_coordinates(points), atol=1e-9)
    np.testing.assert_allclose(inputs[:, 3:5], stock_of(points), atol=1e-9)  # in place of a column for each level
    assert kernel.stock_dims == inputs.shape[-1] - 3 == 3
    for form in ("reweighted", "moment"):
        found = wide.gram_of_coordinates(inputs[:, :3].numpy(), None, form, 1.0)
        np.testing.assert_allclose(found, wide.gram(points, form=form), rtol=1e-9)
    again = Client()._from_json_snapshot(client._to_json_snapshot())
    assert again.get_next_trials(1)


def test_optuna(cov, wide):
    optuna = pytest.importorskip("optuna")
    pytest.importorskip("mkbo_plugins.botorch")
    from mkbo_plugins.optuna import PretrainedSampler

    def objective(trial):
        ligand, heat = trial.suggest_categorical("ligand", LEVELS), trial.suggest_float("heat", 30, 70)
        return outcome({"ligand": ligand, "heat": heat})

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=PretrainedSampler(wide, direction="same", seed=0))
    study.optimize(objective, n_trials=5)
    assert {trial.params["ligand"] for trial in study.trials} <= set(LEVELS)
    assert len({trial.params["ligand"] for trial in study.trials}) > 1
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=4)
    study.sampler = PretrainedSampler(cov, seed=0)
    with pytest.raises(SpaceError, match="descriptors"):
        study.ask().suggest_categorical("ligand", LEVELS)


def test_gradients_in_relaxed_levels_are_those_of_torch(cov):
    torch = pytest.importorskip("torch")
    target = ParameterSpace.from_dict({"ligand": KNOWN[1:], "heat": (30.0, 70.0), "base": ["KOAc", "CsOPiv", "K3PO4"]})
    columns = NamedColumns.of(cov.space, cov.frame, None, target, None, stock_columns="all")
    X = np.random.default_rng(0).uniform([0, 30, 0], [1, 70, 2], (12, 3))
    X[:3] = [[0, 40, 0], [1, 50, 2], [1, 60, 1]]
    inputs = torch.tensor(X, requires_grad=True)
    mapped = columns(inputs)
    upstream = np.random.default_rng(1).normal(size=mapped.shape)
    (mapped * torch.tensor(upstream)).sum().backward()
    np.testing.assert_allclose(columns.vjp(X, upstream), inputs.grad.numpy(), rtol=1e-13, atol=1e-13)
