"""Linear constraints of a space: said, refused, saved, kept by designs."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.errors import ArtefactError, SpaceError, TableWarning
from mkbo_plugins.space.constraints import LinearConstraint
from mkbo_plugins.tables.spacefiles import read_space_file
from tests.random_spaces import check

PARTS = ("sand", "lime", "water", "fibre")
BOUNDS = {"sand": (0, 80), "lime": (0, 40), "water": (5, 30), "fibre": (0, 20)}
OTHERS = {"minutes": (1, 8, "int"), "rate": (1e-3, 1.0, "log"), "mixer": ["drum", "pan"]}
SUM = {"sum": list(PARTS), "equals": 100}
RATIO = {"coefficients": {"water": 1, "lime": -0.5}, "at_least": 2}


def recipes(n: int = 24, seed: int = 0) -> pd.DataFrame:
    """Return recipes of four parts that sum to 100, with one decimal, and a strength."""
    rng = np.random.default_rng(seed)
    low, high = np.array(list(BOUNDS.values())).T
    X = rng.dirichlet([6, 3, 2, 1], 50 * n).round(3) * 100
    X[:, 0] += 100 - X.sum(axis=1)
    X = X[((low <= X) & (high >= X)).all(axis=1)][:n].round(1)
    table = pd.DataFrame(X, columns=list(PARTS))
    return table.assign(strength=(30 + 0.4 * X[:, 1] - 0.02 * (X[:, 2] - 15) ** 2 + 0.3 * X[:, 3]).round(3))


@pytest.fixture(scope="module")
def mixture():
    return ParameterSpace.from_dict(BOUNDS, constraints=[SUM, RATIO])


@pytest.fixture(scope="module")
def mixture_cov(mixture):
    with pytest.warns(TableWarning, match="water"):
        return pretrain(recipes(), "strength", mixture, trainer="gp", progress=False)


def test_a_description_reads_back():
    space = ParameterSpace.from_dict(BOUNDS | OTHERS, constraints=[SUM, RATIO, {"sum": ["sand"], "at_most": 70}])
    again = ParameterSpace.from_dict(space.to_dict(), constraints=[c.to_spec() for c in space.constraints])
    assert again == space
    assert hash(again) == hash(space)
    assert pickle.loads(pickle.dumps(space)) == space
    assert space != ParameterSpace.from_dict(BOUNDS | OTHERS)
    assert [str(c) for c in space.constraints] == [
        "sand + lime + water + fibre = 100",
        "water - 0.5 lime >= 2",
        "sand <= 70",
    ]


def test_toml_says_the_same(tmp_path):
    sections = "".join(f"[{name}]\nbounds = {list(ends)}\n" for name, ends in BOUNDS.items())
    path = tmp_path / "space.toml"
    path.write_text(
        f"{sections}[[constraint]]\nsum = {json.dumps(PARTS)}\nequals = 100\n"
        "[[constraint]]\ncoefficients = {water = 1, lime = -0.5}\nat_least = 2\n"
    )
    assert read_space_file(path) == ParameterSpace.from_dict(BOUNDS, constraints=[SUM, RATIO])
    for wrong, words in {
        "[[constraint]]\nsum = ['sand', 'lime']\nequals = 900\n": r"space.toml: the constraint .* = 900 cannot",
        "[constraint]\nsum = ['sand', 'lime']\nequals = 90\n": r"two brackets, \[\[constraint\]\]",
    }.items():
        path.write_text(sections + wrong)
        with pytest.raises(SpaceError, match=words):
            read_space_file(path)


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        ({"sum": ["sand", "lyme"], "equals": 50}, "'lyme', which is no parameter; .*did you mean 'lime'"),
        ({"sum": ["sand", "rate"], "equals": 50}, "'rate', which is on a log scale"),
        ({"sum": ["sand", "mixer"], "equals": 50}, "'mixer', which has levels"),
        ({"sum": ["sand", "lime"], "equals": 200}, "sand \\+ lime = 200 cannot be kept: .* between 0 and 120"),
        ({"sum": ["sand", "lime"], "at_least": 119}, "sand \\+ lime >= 119 cannot be kept together with sand"),
        ({"coefficients": {"minutes": 2}, "equals": 3}, "2 minutes = 3 cannot be kept: whole numbers"),
        ({"sum": ["lime", "fibre"], "equals": 0}, "leave parameter 'lime' the single value 0"),
        ({"sum": [], "equals": 0}, "names no parameter"),
        ({"sum": ["sand", "sand"], "equals": 3}, "names \\['sand'\\] twice"),
        ({"sum": "sand", "equals": 3}, "list of names"),
        ({"sum": ["sand"], "equal": 3}, "did you mean 'equals'"),
        ({"sum": ["sand"]}, "says nothing"),
        ({"sum": ["sand"], "coefficients": {"sand": 1}, "equals": 3}, "either 'sum' or 'coefficients'"),
        ({"sum": ["sand"], "equals": 3, "at_most": 4}, "either 'equals'"),
        ({"sum": ["sand", "lime"], "at_least": 4, "at_most": 3}, "swap them"),
        ({"coefficients": {"sand": 0}, "equals": 3}, "other than 0"),
        ({"coefficients": {"sand": float("nan")}, "equals": 3}, "finite coefficients"),
        ({"sum": ["sand"], "equals": "3"}, "finite number"),
        ("sand", "is a mapping"),
    ],
)
def test_what_cannot_be_kept_is_refused_by_name(constraint, words):
    with pytest.raises(SpaceError, match=words):
        ParameterSpace.from_dict(BOUNDS | OTHERS, constraints=[SUM, constraint])


def test_constraints_are_a_list():
    with pytest.raises(SpaceError, match="must be a list"):
        ParameterSpace.from_dict(BOUNDS, constraints=SUM)


@pytest.mark.parametrize("seed", range(20))
def test_suggestions_of_random_spaces_keep_everything(seed):
    check(seed)


def test_space_filling_points_are_reproducible_and_far_apart(mixture):
    X = mixture.sobol(8, seed=3)
    np.testing.assert_array_equal(X, mixture.sobol(8, seed=3))
    assert (mixture.sobol(8, seed=4) != X).any()
    np.testing.assert_allclose(X.sum(axis=1), 100, rtol=0, atol=1e-9)
    for first in (8, 3):
        assert np.linalg.norm(X[:first, None] - X[:first], axis=-1)[np.triu_indices(first, 1)].min() > 8
    assert mixture.sobol(0).shape == (0, 4)


def test_a_space_without_constraints_gives_what_it_gave():
    plain = ParameterSpace.from_dict(BOUNDS)
    np.testing.assert_array_equal(plain.sobol(4, seed=1), ParameterSpace(plain.parameters, ()).sobol(4, seed=1))
    assert "constraints" not in json.dumps(plain.to_dict())


def test_fixed_parameters_move_into_the_constant(mixture):
    rest = mixture.without({"fibre": 10, "lime": 20})
    assert [str(c) for c in rest.constraints] == ["sand + water = 70", "water >= 12"]
    assert rest.names == ("sand", "water")
    with pytest.raises(SpaceError, match="leave parameter 'sand' the single value 50"):
        mixture.without({"fibre": 10, "lime": 20, "water": 20})
    both = ParameterSpace.from_dict(BOUNDS | OTHERS, constraints=[SUM])
    with pytest.raises(SpaceError, match=r"break the constraint .* they give 90"):
        both.without(dict(zip(PARTS, (60, 10, 10, 10), strict=True)))
    assert both.without(dict(zip(PARTS, (70, 10, 10, 10), strict=True))).constraints == ()


def test_a_saved_covariance_keeps_its_constraints(mixture_cov, mixture, tmp_path):
    again = PretrainedCovariance.load(mixture_cov.save(tmp_path / "a.mkbo.json"))
    assert again == mixture_cov
    assert again.space == mixture
    text = (tmp_path / "a.mkbo.json").read_text()
    assert text.count('"constraints"') == 1
    (tmp_path / "b.mkbo.json").write_text(text.replace('["water",1.0]', '["sand",1.0]'))
    with pytest.raises(ArtefactError):
        PretrainedCovariance.load(tmp_path / "b.mkbo.json")


def test_a_file_without_constraints_says_nothing_of_them(gp_cov):
    assert b"constraints" not in gp_cov.to_bytes()


@pytest.mark.parametrize("direction", ["same", "opposite", "unknown"])
def test_first_points_keep_the_constraints(mixture_cov, direction):
    points = mixture_cov.starting_points(5, direction)
    X = mixture_cov.space.to_raw(points)
    np.testing.assert_allclose(X.sum(axis=1), 100, rtol=0, atol=1e-9)
    assert (X[:, 2] - 0.5 * X[:, 1] >= 2 - 1e-9).all()


def test_several_tables_keep_the_constraints_of_each():
    one, other = recipes(), recipes(seed=1).assign(minutes=lambda t: np.arange(len(t)) % 7 + 1)
    space = ParameterSpace.from_dict(BOUNDS | {"minutes": (1, 8, "int")}, constraints=[SUM])
    cov = pretrain([one, other], "strength", space, trainer="gp", progress=False)
    assert cov.space.constraints == space.constraints
    assert all(member.space.constraints == space.constraints for member in cov.members)
    bound = ParameterSpace.from_dict(
        BOUNDS | {"minutes": (1, 8, "int"), "hours": (0, 3)}, constraints=[{"sum": ["fibre", "hours"], "at_most": 9}]
    )
    with pytest.raises(SpaceError, match="fibre \\+ hours <= 9 is on parameters that no table has together"):
        pretrain([one, other.drop(columns="fibre").assign(hours=1.0)], "strength", bound)


def test_rows_that_break_a_constraint_are_named(mixture):
    table = recipes()
    table.loc[3, "sand"] += 5
    with pytest.warns(TableWarning, match=r"sand \+ lime \+ water \+ fibre = 100 is not kept in row 3, .*by up to 5"):
        pretrain(table, "strength", ParameterSpace(mixture.parameters, mixture.constraints[:1]), trainer="gp")


def test_a_constraint_is_frozen_and_its_own_description():
    constraint = LinearConstraint({"a": 2, "b": 1}, at_most=3)
    assert LinearConstraint.of(constraint.to_spec()) == constraint
    with pytest.raises(AttributeError):
        constraint.at_most = 4


def test_new_levels_leave_the_constraints(mixture):
    kinds = ParameterSpace.from_dict({**mixture.to_dict(), "curing": ["air", "steam"]}, constraints=[SUM])
    table = pd.DataFrame(kinds.from_raw(kinds.sobol(16)))
    cov = pretrain(table.assign(strength=table["lime"]), "strength", kinds, trainer="gp", progress=False)
    wider = cov.with_levels({"curing": ["sealed"]})
    assert wider.space.constraints == cov.space.constraints
    points = pd.DataFrame(wider.starting_points(6, direction="unknown"))
    assert ((points[list(PARTS)].sum(axis=1) - 100).abs() <= 1e-9).all()
