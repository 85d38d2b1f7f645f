"""Levels of a target that the table lacks: what is exact, and every host."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import SquaredExponential
from mkbo_plugins.covariance.combined import CombinedCovariance
from mkbo_plugins.covariance.mixture import MixtureCovariance
from mkbo_plugins.errors import SpaceError, TableWarning
from mkbo_plugins.pretraining.mixture import pretrain_mixture

KNOWN = ["DMF", "THF", "MeCN"]
EFFECT = {"DMF": 0.0, "THF": 2.0, "MeCN": -1.0}
SPACE = ParameterSpace.from_dict({"heat": (20.0, 80.0), "solvent": KNOWN, "time": (1.0, 100.0, "log")})
NEW = {"solvent": ["DMSO", "NMP"]}


def table():
    rows = SPACE.from_raw(SPACE.sobol(24, 1))
    return pd.DataFrame(rows).assign(yield_=[EFFECT[r["solvent"]] + r["heat"] / 20 + np.log(r["time"]) for r in rows])


@pytest.fixture(scope="module")
def cov():
    return pretrain(table(), "yield_", SPACE, C=20.0, sigma=2.0, epsilon=0.05, ard=False, progress=False)


@pytest.fixture(scope="module")
def gp_cov():
    return pretrain(table(), "yield_", SPACE, trainer="gp", progress=False)


def at(*solvents, heat=45.0, time=9.0):
    return pd.DataFrame({"heat": heat, "solvent": solvents, "time": time})


@pytest.mark.parametrize("form", ["base", "reweighted", "normalised", "two_layer", "moment"])
def test_nothing_changes_between_known_levels(cov, gp_cov, form):
    for one in (cov, gp_cov):
        points = table().iloc[:9, :3]
        wide = one.with_levels(NEW)
        np.testing.assert_allclose(wide.gram(points, form=form), one.gram(points, form=form), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(wide.predict(points), one.predict(points), rtol=1e-10)


def test_with_equal_weights_a_new_level_is_to_every_other_what_two_known_ones_are(cov):
    wide = cov.with_levels(NEW)
    gram = wide.gram(at(*KNOWN, *NEW["solvent"]), form="base")
    np.testing.assert_allclose(gram[~np.eye(5, dtype=bool)], gram[0, 1], rtol=1e-12)
    known, new = at(*KNOWN), at("DMSO", heat=70.0, time=2.0)
    elsewhere = at("THF", heat=70.0, time=2.0)
    across = wide.gram(known, elsewhere)[[0, 2], 0]  # of other levels
    np.testing.assert_allclose(wide.gram(known, new)[:, 0], np.full(3, across.mean()), rtol=1e-9)
    assert wide.gram(known, elsewhere)[1, 0] != pytest.approx(across[0], rel=1e-3)


def test_k_4_of_two_rows_a_known_and_a_new_level_is_that_of_two_known_ones(cov):
    wide = cov.with_levels(NEW)
    kernel = SquaredExponential(sigma=wide.sigma)
    row_a, row_b = wide.to_coordinates(table().iloc[:2, :3])
    dmf, thf, new = wide.to_coordinates(at("DMF", "THF", "NMP"))
    assert kernel(row_a, row_b, dmf, new) == pytest.approx(kernel(row_a, row_b, dmf, thf), rel=1e-12)


def test_with_learned_weights_a_new_level_is_as_far_from_known_ones_as_they_are_on_average(gp_cov):
    wide = gp_cov.with_levels(NEW)
    distances = -2 * np.log(wide.gram(at(*KNOWN, "DMSO"), form="base"))
    assert distances[3, :3].mean() == pytest.approx(distances[:3, :3].sum() / 6, rel=1e-10)


def test_the_table_predicts_about_the_mean_over_its_levels(cov, gp_cov):
    for one in (cov, gp_cov):
        wide = one.with_levels(NEW)
        known = np.mean([wide.predict(at(level)) for level in KNOWN])
        np.testing.assert_allclose(wide.predict(at(*NEW["solvent"])), known, atol=0.6)  # effects differ by 3
        hot = wide.predict(at("DMSO", heat=75.0)) - wide.predict(at("DMSO", heat=25.0))
        assert hot == pytest.approx(2.5, abs=0.6)


def test_saved_combined_and_mixed_covariances_have_them_too(gp_cov, tmp_path):
    wide = gp_cov.with_levels(NEW)
    assert PretrainedCovariance.load(wide.save(tmp_path / "wide.mkbo.json")) == wide
    assert wide.fingerprint != gp_cov.fingerprint
    assert gp_cov.with_levels({}) is gp_cov
    other = pretrain(
        pd.DataFrame({"heat": [20.0, 40, 60, 80], "y": [1.0, 2, 3, 5]}),
        "y",
        ParameterSpace.from_dict({"heat": (20.0, 80.0)}),
        trainer="gp",
        progress=False,
    )
    both = CombinedCovariance((other, gp_cov)).with_levels(NEW)
    assert both.members == (other, wide)
    mixture = pretrain_mixture(table(), "yield_", SPACE)
    assert isinstance(mixture, MixtureCovariance)
    gram = mixture.with_levels(NEW).gram(at(*KNOWN, "DMSO"))
    np.testing.assert_allclose(gram[~np.eye(4, dtype=bool)], gram[0, 1])


def test_what_is_no_new_level_is_named(cov):
    for levels, message in (
        ({"heat": [100]}, r"\['heat'\] are not categorical"),
        ({"solvent": ["DMF"]}, "'solvent': levels must differ"),
        ({"colour": ["red"]}, "unknown parameter 'colour'"),
    ):
        with pytest.raises(SpaceError, match=message):
            cov.with_levels(levels)


def test_starting_points_may_have_new_levels(cov):
    points = cov.with_levels(NEW).starting_points(20, "unknown")
    assert {point["solvent"] for point in points} == {*KNOWN, *NEW["solvent"]}


TARGET = ParameterSpace.from_dict({"solvent": ["NMP", "THF", "DMSO"], "heat": (30.0, 70.0), "time": (2.0, 50.0, "log")})


def outcomes(rows):
    return np.array([{"NMP": 1.0, "THF": 3.0, "DMSO": 8.0}[r["solvent"]] + r["heat"] / 30 for r in rows])


def test_botorch_learns_of_a_new_level(gp_cov):
    torch, botorch = pytest.importorskip("torch"), pytest.importorskip("mkbo_plugins.botorch")
    X = torch.tensor(TARGET.sobol(12))
    Y = torch.tensor(outcomes(TARGET.from_raw(X.numpy())))[:, None]
    with pytest.warns(TableWarning, match=r"'solvent': the table has nothing on \['NMP', 'DMSO'\], only on"):
        model = botorch.pretrained_gp(gp_cov, X, Y, space=TARGET)
    grid = torch.tensor(TARGET.to_raw([{"solvent": s, "heat": 50.0, "time": 10.0} for s in ("NMP", "DMSO")]))
    frame = model.covar_module.frame(grid)
    assert (frame[0] != frame[1]).sum() == 4  # their own coordinates, in the frame and of the stock covariance
    model.eval()
    low, high = model.posterior(grid).mean[:, 0].tolist()
    assert high > low + 2
    wide = gp_cov.with_levels({"solvent": ["NMP", "DMSO"]})
    by_hand = botorch.NamedFrame(wide, space=TARGET)
    np.testing.assert_array_equal(by_hand(grid), frame)
    with pytest.raises(SpaceError, match=r"cov\.with_levels\(\{'solvent': \['NMP'\]\}\)"):
        botorch.NamedFrame(gp_cov, space=TARGET)


def test_a_constant_may_be_a_new_level(gp_cov):
    torch, botorch = pytest.importorskip("torch"), pytest.importorskip("mkbo_plugins.botorch")
    X = torch.rand(4, 2, dtype=torch.double) * 20 + 30
    with pytest.warns(TableWarning, match=r"nothing on \['DMSO'\]"):
        model = botorch.pretrained_gp(gp_cov, X, X[:, :1], space=_without_solvent(), fixed={"solvent": "DMSO"})
    assert model.covar_module.frame(X).shape == (4, 3 + 2 + 1 + 2)


def _without_solvent():
    return ParameterSpace(tuple(p for p in SPACE.parameters if p.name != "solvent"))


def test_scikit_optimize_learns_of_a_new_level(gp_cov):
    skopt = pytest.importorskip("skopt")
    space = pytest.importorskip("skopt.space")
    from mkbo_plugins.skopt import pretrained_regressor

    dimensions = [
        space.Categorical(["DMSO", "NMP", "THF"], name="solvent"),
        space.Real(30.0, 70.0, name="heat"),
        space.Real(2.0, 50.0, "log-uniform", name="time"),
    ]
    with pytest.warns(TableWarning, match=r"nothing on \['DMSO', 'NMP'\]"):
        regressor = pretrained_regressor(gp_cov, dimensions)
    optimiser = skopt.Optimizer(dimensions, regressor, n_initial_points=6, random_state=0, acq_optimizer="sampling")
    for _ in range(8):
        x = optimiser.ask()
        optimiser.tell(x, -float(outcomes([{"solvent": x[0], "heat": x[1]}])[0]))
    assert optimiser.get_result().x[0] == "DMSO"
    wide = gp_cov.with_levels({"solvent": ["DMSO", "NMP"]})
    points = [["DMSO", 40.0, 3.0], ["NMP", 40.0, 3.0], ["THF", 60.0, 30.0]]
    columns = optimiser.space.transform(points)
    kernel = optimiser.models[-1].kernel
    raw = wide.to_coordinates(pd.DataFrame(points, columns=["solvent", "heat", "time"]))
    np.testing.assert_allclose(kernel.columns.points(columns, "normalised").frame, raw, atol=1e-12)


def test_ax_learns_of_a_new_level_and_stores_it(gp_cov, tmp_path):
    pytest.importorskip("ax")
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    from mkbo_plugins.ax import use_pretrained

    client = Client(random_seed=0)
    client.configure_experiment(
        [
            ChoiceParameterConfig("solvent", ["DMSO", "THF"], parameter_type="str", is_ordered=False),
            RangeParameterConfig("heat", (30.0, 70.0), parameter_type="float"),
            RangeParameterConfig("time", (2.0, 50.0), parameter_type="float", scaling="log"),
        ]
    )
    client.configure_optimization("y")
    with pytest.warns(TableWarning, match=r"nothing on \['DMSO'\]"):
        use_pretrained(client, gp_cov, initial_trials=3, direction="same")
    for index, point in client.get_next_trials(3).items():
        client.complete_trial(index, {"y": round(float(outcomes([point])[0]), 3)})
    client.save_to_json_file(str(tmp_path / "client.json"))
    loaded = Client.load_from_json_file(str(tmp_path / "client.json"))
    (after,), (going_on,) = (one.get_next_trials(1).values() for one in (loaded, client))
    assert after["solvent"] == going_on["solvent"]
    assert [after["heat"], after["time"]] == pytest.approx([going_on["heat"], going_on["time"]], rel=1e-4)
    kernel = client._generation_strategy.adapter.generator.surrogate.model.covar_module
    assert kernel.cov == gp_cov.with_levels({"solvent": ["DMSO"]})


def test_the_command_line_goes_on_with_a_new_level(gp_cov, tmp_path):
    pytest.importorskip("botorch")
    from mkbo_plugins.cli import app

    gp_cov.save(tmp_path / "a.mkbo.json")
    (tmp_path / "new.toml").write_text(
        '[solvent]\nlevels = ["THF", "DMSO"]\n[heat]\nbounds = [30, 70]\n[time]\nbounds = [2, 50]\nlog = true\n'
    )
    rows = [("THF", 30, 5, 1.0), ("DMSO", 55, 5, 6.0), ("DMSO", 45, 9, 5.0), ("THF", 65, 20, 2.5)]
    pd.DataFrame(rows, columns=["solvent", "heat", "time", "z"]).to_csv(tmp_path / "done.csv", index=False)
    command = ["suggest", "--covariance", tmp_path / "a.mkbo.json", "--json"]
    new = CliRunner().invoke(
        app, [*map(str, command), "--space", str(tmp_path / "new.toml"), "--done", str(tmp_path / "done.csv")]
    )
    assert new.exit_code == 0, new.output
    assert "the table has nothing on ['DMSO']" in " ".join(new.stderr.split())
    assert json.loads(new.stdout)["suggestions"][0]["point"]["solvent"] == "DMSO"
    fixed = CliRunner().invoke(app, [*map(str, command), "--fix", "solvent=NMP", "-n", "2"])
    assert fixed.exit_code == 0, fixed.output
    assert "nothing on ['NMP']" in " ".join(fixed.stderr.split())


def test_a_level_in_another_spelling_is_pointed_at(gp_cov):
    torch, botorch = pytest.importorskip("torch"), pytest.importorskip("mkbo_plugins.botorch")
    space = ParameterSpace.from_dict({**SPACE.to_dict(), "solvent": ["DMF", "THf"]})
    with pytest.warns(TableWarning, match=r"nothing on \['THf'\].*did you mean 'THF'"):
        botorch.pretrained_gp(gp_cov, torch.tensor(space.sobol(4)), torch.rand(4, 1).double(), space=space)
