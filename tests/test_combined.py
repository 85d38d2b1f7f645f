"""Covariances of several tables: what they compute, what they refuse, and how they are kept."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

from mkbo_plugins import CombinedCovariance, ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.core import reweight
from mkbo_plugins.core.training.svr import fit_polished
from mkbo_plugins.covariance.base import GRAM_FORMS
from mkbo_plugins.errors import FitError, KernelError, MkboError, MkboWarning, SpaceError, TableError
from tests.several_tables import (
    SETTINGS,
    SPACE,
    TABLE_A,
    TABLE_B,
    assert_close,
    brute_force,
    chain,
    combined,
    m_kernel,
    points,
    table,
)

# What is computed


def test_the_space_is_the_union_in_order_of_appearance():
    cov = combined()
    assert [member.space.names for member in cov.members] == [("p", "q"), ("q", "r")]
    assert cov.space == SPACE
    assert cov.fixed.columns == ((0, 1), (1, 2))
    assert (cov.tables, cov.targets) == (2, ("hardness", "yield"))


@pytest.mark.parametrize("weights", [None, (1.7, 0.4)])
def test_gram_is_the_brute_force_sum_in_raw_units(weights):
    X = points(5)
    expected = sum(
        weight * brute_force(member, X, X) for weight, member in zip(weights or (1, 1), combined().members, strict=True)
    )
    assert_close(combined().gram(X, weights=weights), expected, np.diag(expected))
    assert_close(combined().gram(X, X[:2], weights=weights), expected[:, :2], np.diag(expected))


@pytest.mark.parametrize("form", GRAM_FORMS)
def test_gram_of_every_form_is_made_of_the_members(form):
    X, Y, s = points(4), points(3, seed=6), {"s": 0.7} if form == "two_layer" else {}
    parts = [member.gram(*(only(member, Z) for Z in (X, Y)), form=form, **s) for member in combined().members]
    expected = parts[0] * parts[1] if form == "two_layer" else parts[0] + parts[1]
    np.testing.assert_allclose(combined().gram(X, Y, form=form, **s), expected, rtol=1e-13, atol=1e-13)


def only(member, points):
    return [{name: point[name] for name in member.space.names} for point in points]


def test_the_order_of_columns_does_not_matter():
    X = points(4)
    turned = [{name: point[name] for name in ("r", "p", "q")} for point in X]
    np.testing.assert_array_equal(combined().gram(X), combined().gram(turned))


def test_a_chain_is_the_brute_force_quadruple_sum():
    cov, X = chain(), points(3)
    first, last = cov.fixed.earlier[0], cov.fixed.decision.table
    assert len(first.alpha) <= 5
    assert len(last.alpha) <= 5
    pairs = [
        list(itertools.product(zip(t.alpha.tolist(), t.points.tolist(), strict=True), repeat=2)) for t in (first, last)
    ]
    Z = cov.to_coordinates(X).tolist()
    expected = np.array(
        [
            [
                math.fsum(
                    a * b * c * d * m_kernel(cov, s, t, u, v, x, y)
                    for ((a, s), (b, t)), ((c, u), (d, v)) in itertools.product(*pairs)
                )
                for y in Z
            ]
            for x in Z
        ]
    )
    assert_close(cov.gram(X), expected, np.diag(expected))
    kernel = reweight(reweight(cov.kernel, last.points, last.alpha), first.points, first.alpha)
    assert_close(np.asarray(kernel.gram(cov.to_coordinates(X))), expected, np.diag(expected))


def test_a_chain_keeps_kernel_and_decision_function_of_the_last_table():
    last = pretrain(table(SPACE.names, "y", n=5, seed=3), "y", SPACE, **SETTINGS)
    assert chain().fixed.decision == last.fixed.decision
    assert (chain().record, chain().tables) == (last.record, 1)
    assert [record.target for record in chain().earlier] == ["y"]
    X = last.to_coordinates(table(SPACE.names, "y", n=5, seed=3))
    assert chain().fixed.mean_diagonal == pytest.approx(float(np.mean(chain().fixed.kernel(X, X))))


@pytest.mark.parametrize("kernel", ["se", "polynomial"])
def test_machines_of_a_chain_are_trained_with_one_kernel(kernel):
    tables = [table(SPACE.names, "y", n=8, seed=seed) for seed in (2, 3)]
    cov = pretrain(tables, "y", SPACE, combine="chain", kernel=kernel, **SETTINGS)
    Z = cov.to_coordinates(tables[0])
    record, weighted = cov.earlier[0], cov.fixed.earlier[0]
    fit = fit_polished(np.asarray(cov.kernel.gram(Z)), tables[0]["y"].to_numpy(), record.C, record.epsilon)
    np.testing.assert_array_equal(weighted.points, Z[fit.alpha != 0])
    np.testing.assert_array_equal(weighted.alpha, fit.alpha[fit.alpha != 0])


@pytest.mark.parametrize(("direction", "signs"), [("same", (1, 1)), (("opposite", "unknown"), (-1, 0))])
def test_the_merit_of_points_is_the_mean_over_tables_with_a_direction(direction, signs):
    X = points(6)
    said = [
        sign * member.fixed.standardised_decision(member.to_coordinates(only(member, X)))
        for sign, member in zip(signs, combined().members, strict=True)
    ]
    found = combined().merit(combined().to_coordinates(X), direction)
    np.testing.assert_allclose(found, sum(said) / np.count_nonzero(signs), rtol=1e-12, atol=1e-12)


def test_starting_points_are_good_by_the_tables_and_differ():
    cov = combined()
    best = cov.starting_points(4, "same")
    assert len({tuple(point.values()) for point in best}) == 4
    usual = cov.merit(cov.to_coordinates(points(256)), "same")
    assert cov.merit(cov.to_coordinates(best), "same")[0] > np.quantile(usual, 0.95)
    assert cov.starting_points(2) == points(2, seed=0) == cov.starting_points(2, ["unknown", "unknown"])


def test_the_verdict_is_for_a_target_that_follows_one_of_the_tables():
    cov, X = combined(), points(12)
    member = cov.members[0]
    y = member.predict(only(member, X)) + 0.02 * np.random.default_rng(0).normal(size=12)
    assert cov.verdict(X, y).log_ratio > 0


def test_another_evaluator_changes_nothing_but_the_way():
    slow, X = combined().with_evaluator("extended", 1e-12), points(4)
    assert slow == combined()
    assert {member.evaluator.choice for member in slow.members} == {"extended"}
    np.testing.assert_allclose(slow.gram(X), combined().gram(X), rtol=1e-8)


# What is refused


def member(space, frame="centred"):
    rows = space.sobol(8)
    return pretrain((rows, np.sin(rows[:, 0]) + rows[:, -1]), space=space, frame=frame, **SETTINGS)


@pytest.mark.parametrize(
    "other", [(0.0, 20.0), (1.0, 10.0, "log"), (0, 10, "int"), [0.0, 5.0, 10.0], ["low", "high"]], ids=str
)
def test_a_shared_parameter_must_be_described_alike(other):
    members = [member(ParameterSpace.from_dict({"p": p, "z": (0, 1)})) for p in ((0.0, 10.0), other)]
    with pytest.raises(SpaceError, match=r"(?s)'p'.*table 2.*one ParameterSpace"):
        CombinedCovariance(tuple(members))


def test_frames_must_be_equal():
    space = ParameterSpace.from_dict({"p": (0, 1)})
    with pytest.raises(SpaceError, match=r"'centred', 'unit'.*same frame"):
        CombinedCovariance((member(space), member(space, "unit")))


@pytest.mark.parametrize("members", [(), (combined,), (combined, combined)])
def test_members_must_be_two_or_more_of_single_tables(members):
    with pytest.raises(KernelError, match="two or more of PretrainedCovariance"):
        CombinedCovariance(tuple(make().members[0] if len(members) == 1 else make() for make in members))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weights": (1.0,)}, "one entry for each of 2"),
        ({"weights": (1.0, -1.0)}, "at least 0"),
        ({"weights": (1.0, math.nan)}, "at least 0"),
        ({"s": (1.0, 2.0, 3.0), "form": "two_layer"}, "one entry for each of 2"),
        ({"s": (1.0, 0.0), "form": "two_layer"}, "above 0"),
        ({"form": "two_layer", "weights": (0.5, 1.0)}, "no weights"),
        ({"form": "transfer"}, "one of"),
    ],
)
def test_settings_of_gram_without_meaning(settings, words):
    with pytest.raises(KernelError, match=words):
        combined().gram(points(2), **settings)


@pytest.mark.parametrize("direction", ["up", ["same"], ["same", "opposite", "same"], ["same", 1], None])
def test_directions_without_meaning(direction):
    with pytest.raises(KernelError, match="direction must be"):
        combined().starting_points(1, direction)


BOTH = {"table": [TABLE_A, TABLE_B], "target": ["hardness", "yield"], "space": SPACE, **SETTINGS}


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"table": []}, TableError, "list of tables is empty"),
        ({"target": ["hardness"]}, TableError, "target must be given once.*each of 2, got 1"),
        ({"target": "hardness"}, TableError, "table 2: target 'hardness' is not a column"),
        ({"space": [SPACE]}, TableError, "space must be given once"),
        ({"space": None}, MkboError, "space must be a ParameterSpace, got NoneType"),
        ({"space": [SPACE, None]}, MkboError, "space must be a ParameterSpace, got NoneType"),
        ({"table": [TABLE_A, TABLE_A], "target": "hardness"}, SpaceError, "'r'.*columns of no table"),
        ({"table": [TABLE_A, TABLE_B.assign(r=np.nan)]}, TableError, "table 2: values are missing in columns"),
        ({"groups": [None, "batch"]}, TableError, "table 2: groups: 'batch'"),
        ({"combine": "product"}, FitError, "'sum', 'chain' or 'pool'"),
        ({"combine": "chain"}, SpaceError, "the same parameters.*'p', 'q'.*'q', 'r'.*combine='sum'"),
        ({"resume": "search.json"}, FitError, "train each by itself"),
    ],
)
def test_tables_that_do_not_belong_together(changes, kind, words):
    with pytest.raises(kind, match=f"(?s){words}"):
        pretrain(**(BOTH | changes))


def test_a_chain_of_processes_is_refused():
    tables = [table(SPACE.names, "y", seed=seed) for seed in (0, 1)]
    with pytest.raises(FitError, match="trainer='svm'"):
        pretrain(tables, "y", SPACE, combine="chain", trainer="gp", progress=False)


def test_a_list_of_one_table_is_that_table():
    alone = pretrain(TABLE_A, "hardness", combined().members[0].space, **SETTINGS)
    assert pretrain([TABLE_A], ["hardness"], [alone.space], **SETTINGS) == alone == combined().members[0]


def test_warnings_say_which_table_they_are_about():
    settings = BOTH | {"C": [1.0, 1.1], "epsilon": 0.5}
    with pytest.warns(MkboWarning, match=r"table \d: the best C") as caught:
        pretrain(**settings)
    assert all(warning.filename == __file__ for warning in caught)


# How it is kept


@pytest.mark.parametrize("cov", [combined, chain])
def test_a_saved_covariance_is_the_same(cov, tmp_path):
    cov = cov()
    path = cov.save(tmp_path / "two.mkbo.json")
    loaded = PretrainedCovariance.load(path)
    assert type(loaded) is type(cov)
    assert loaded == cov
    assert loaded.fingerprint == cov.fingerprint
    np.testing.assert_array_equal(loaded.gram(points(4)), cov.gram(points(4)))
    assert repr(loaded) == repr(cov)


def test_any_difference_shows():
    first, second = combined().members
    assert CombinedCovariance((second, first)) != combined()
    assert CombinedCovariance((second, first)).fingerprint != combined().fingerprint
    assert CombinedCovariance((first, second)) == combined()
    assert len({first.fingerprint, second.fingerprint, combined().fingerprint}) == 3


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda cov: pickle.loads(pickle.dumps(cov))])
@pytest.mark.parametrize("cov", [combined, chain])
def test_copies_are_equal_and_as_frozen(cov, copier):
    copied = copier(cov())
    assert copied == cov()
    for each in copied.members:
        for weighted in each.fixed.kernel.tables:
            assert not weighted.points.flags.writeable
            assert not weighted.alpha.flags.writeable


def test_levels_of_the_same_text_keep_their_own_coordinates(space):
    both = ParameterSpace.from_dict({"a": ["1", 1, "2"], "b": (0.0, 1.0)})
    X = both.sobol(18, seed=1)
    y = X @ [1.0, -2.0]
    covs = [pretrain((X, t), name, both, trainer="gp", progress=False) for name, t in (("y", y), ("z", y**2))]
    combined = CombinedCovariance(tuple(covs))
    expected = sum(cov.gram(X, form="moment") for cov in covs)
    np.testing.assert_allclose(combined.gram(X, form="moment"), expected, rtol=1e-9, atol=1e-9)
