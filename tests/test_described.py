"""Levels described by numbers: the map, the covariance, further levels, targets and saved files."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain
from mkbo_plugins.covariance.combined import CombinedCovariance
from mkbo_plugins.covariance.container import pack
from mkbo_plugins.covariance.limits import COORDINATES
from mkbo_plugins.covariance.target import for_target
from mkbo_plugins.errors import ArtefactError, FitError, SpaceError, TableWarning
from mkbo_plugins.pretraining.left_out_campaigns import _narrowed
from mkbo_plugins.pretraining.mixture import pretrain_mixture
from mkbo_plugins.report.words import describe_parameters
from mkbo_plugins.space.described import MOST_DESCRIPTORS, Described
from mkbo_plugins.space.levels import levels_by_name
from mkbo_plugins.space.named import NamedColumns
from mkbo_plugins.space.parameters import FRAMES

PHOSPHINES = {
    "PPh3": {"pKa": 2.73, "cone": 145.0},
    "PCy3": {"pKa": 9.70, "cone": 170.0},
    "PMe2Ph": {"pKa": 6.50, "cone": 122.0},
    "P(tBu)3": {"pKa": 11.4, "cone": 182.0},
    "PEt3": {"pKa": 8.69, "cone": 132.0},
}
FURTHER = {"PBu3": {"pKa": 8.43, "cone": 135.0}}
HEAT = (20.0, 80.0)
SPACE = ParameterSpace.from_dict({"heat": HEAT, "ligand": {"levels": PHOSPHINES}})
PLAIN = ParameterSpace.from_dict({"heat": HEAT, "ligand": list(PHOSPHINES)})
TWIN = ParameterSpace.from_dict({"heat": HEAT, "pKa": (2.73, 11.4), "cone": (122.0, 182.0)})


def twin_points(points):
    """Return points with the numbers of their ligand as parameters of their own."""
    rows = PHOSPHINES | FURTHER
    return pd.DataFrame([{"heat": p["heat"], **rows[p["ligand"]]} for p in points])


def table(n=24):
    points = SPACE.from_raw(SPACE.sobol(n, 1))
    numbers = twin_points(points)
    return pd.DataFrame(points).assign(
        rate=np.sin(numbers["pKa"] / 3) + numbers["heat"] * (numbers["cone"] - 100) / 4000
    )


SETTINGS = {"svm": {"C": 20.0, "sigma": 2.0, "epsilon": 0.02, "ard": False}, "gp": {"trainer": "gp"}}


@pytest.fixture(scope="module", params=["svm", "gp"])
def pair(request):
    """Return a covariance of a table, and that of the table with descriptors as parameters."""
    data, settings = table(), SETTINGS[request.param]
    twin = twin_points(data.to_dict("records")).assign(rate=data["rate"])
    return tuple(
        pretrain(one, "rate", space, progress=False, **settings) for one, space in ((data, SPACE), (twin, TWIN))
    )


@pytest.fixture(scope="module")
def cov():
    return pretrain(table(), "rate", SPACE, progress=False, **SETTINGS["gp"])


def at(*ligands, heat=45.0):
    return [{"heat": heat, "ligand": ligand} for ligand in ligands]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_level_is_the_point_that_its_numbers_say(frame):
    raw = SPACE.to_raw(at(*PHOSPHINES))
    expected = np.array([[45.0, *row.values()] for row in PHOSPHINES.values()])
    low, high = np.array([20.0, *expected[:, 1:].min(axis=0)]), np.array([80.0, *expected[:, 1:].max(axis=0)])
    expected = (expected - low) / (high - low)
    expected = 2 * expected - 1 if frame == "centred" else expected
    np.testing.assert_allclose(SPACE.to_coordinates(raw, frame), expected, atol=1e-15)
    np.testing.assert_allclose(SPACE.to_coordinates(torch.tensor(raw), frame), expected, atol=1e-15)
    assert SPACE.coordinate_names == ("heat", "ligand.pKa", "ligand.cone")
    assert SPACE.coordinate_owners == ("heat", "ligand", "ligand")
    np.testing.assert_array_equal(SPACE.coordinate_ranges(frame), 2.0 if frame == "centred" else 1.0)


@pytest.mark.parametrize("form", ["base", "reweighted", "normalised", "two_layer", "moment"])
def test_the_covariance_is_that_of_a_table_with_descriptors_as_parameters(pair, form):
    cov, twin = pair
    points = at(*PHOSPHINES) + at(*PHOSPHINES, heat=71.0)
    np.testing.assert_allclose(cov.gram(points, form=form), twin.gram(twin_points(points), form=form), rtol=1e-9)
    np.testing.assert_allclose(cov.predict(points), twin.predict(twin_points(points)), rtol=1e-9)


def test_a_further_level_is_the_point_that_its_numbers_say(pair):
    cov, twin = pair
    wide = cov.with_levels({"ligand": FURTHER})
    points = at(*PHOSPHINES, *FURTHER)
    for form in ("base", "normalised"):
        np.testing.assert_allclose(wide.gram(points, form=form), twin.gram(twin_points(points), form=form), rtol=1e-9)
    np.testing.assert_allclose(wide.predict(points), twin.predict(twin_points(points)), rtol=1e-9)
    np.testing.assert_array_equal(wide.alpha, cov.alpha)
    np.testing.assert_array_equal(wide.support, cov.support)
    assert wide.space["ligand"].descriptors[0].lower == 2.73  # the frame stays


def test_the_more_alike_levels_are_the_larger_is_their_covariance(cov):
    wide = cov.with_levels({"ligand": FURTHER})
    gram = wide.gram(at(*PHOSPHINES, *FURTHER), form="base")
    Z = wide.to_coordinates(at(*PHOSPHINES, *FURTHER))
    distances = ((Z[:, None] - Z) ** 2 * wide.weights).sum(axis=-1)
    apart = np.triu_indices(len(Z), 1)
    np.testing.assert_array_equal(np.argsort(-gram[apart]), np.argsort(distances[apart]))
    names = [*PHOSPHINES, *FURTHER]
    assert gram[names.index("PBu3"), names.index("PEt3")] > gram[names.index("PBu3"), names.index("PPh3")]
    near = cov.with_levels({"ligand": {"alike": {"pKa": 8.69, "cone": 132.001}}})
    assert near.gram(at("alike"), at("PEt3"), form="two_layer")[0, 0] > 1 - 1e-6


def test_saved_combined_and_mixed_covariances_have_descriptors(cov, tmp_path):
    wide = cov.with_levels({"ligand": FURTHER})
    for one in (cov, wide):
        back = PretrainedCovariance.load(one.save(tmp_path / "of_ligands.mkbo.json"))
        assert back == one
        assert back.fingerprint == one.fingerprint
        np.testing.assert_array_equal(back.gram(at(*PHOSPHINES)), one.gram(at(*PHOSPHINES)))
    assert wide.fingerprint != cov.fingerprint
    assert ParameterSpace.from_dict(wide.space.to_dict()) == wide.space
    other = pretrain(table(12), "rate", SPACE, progress=False, **SETTINGS["gp"])
    both = CombinedCovariance((other, cov)).with_levels({"ligand": FURTHER})
    assert both.members[1] == wide
    mixture = pretrain_mixture(table(), "rate", SPACE).with_levels({"ligand": FURTHER})
    gram = mixture.gram(at("PEt3", "PPh3"), at("PBu3"))
    assert gram[0, 0] > gram[1, 0]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["descriptors"][0].update(numbers=[1.0]),
        lambda spec: spec["descriptors"][0].update(numbers=["1", 2, 3, 4, 5]),
        lambda spec: spec["descriptors"][0].update(numbers=[1e300, 2, 3, 4, 5]),
        lambda spec: spec["descriptors"][0].update(bounds=[1.0, 1.0]),
        lambda spec: spec["descriptors"][0].update(bounds=[-1e308, 1e308]),
        lambda spec: spec["descriptors"][0].update(bounds=[1.0]),
        lambda spec: spec["descriptors"][0].update(name=3),
        lambda spec: spec["descriptors"][0].update(name="cone"),
        lambda spec: spec["descriptors"][0].update(numbers=None),
        lambda spec: spec["descriptors"][0].pop("name"),
        lambda spec: spec.update(descriptors=[]),
        lambda spec: spec.update(descriptors="pKa"),
        lambda spec: spec.update(descriptors=[1, 2]),
        lambda spec: spec.update(levels={}),
        lambda spec: spec.update(ordered=True),
        lambda spec: spec.update(descriptors=spec["descriptors"] * 600),
    ],
)
def test_damaged_descriptors_are_refused(cov, change):
    content = json.loads(json.dumps(cov.to_content()))
    change(content["space"][1][1])
    with pytest.raises(ArtefactError):
        PretrainedCovariance.from_bytes(pack(content))


FRAME = pd.DataFrame.from_dict(PHOSPHINES, orient="index")


def test_so_many_levels_as_are_saved_are_trained_on():
    rows = {f"L{i}": {"p": float(i), "q": float(i * i)} for i in range(COORDINATES)}
    data = pd.DataFrame({"ligand": list(rows)[:950:50], "rate": np.sin(np.arange(19.0))})
    with pytest.raises(FitError, match=f"has {COORDINATES + 2} parameters, levels and descriptors"):
        pretrain(data, "rate", ParameterSpace.from_dict({"ligand": {"levels": rows}}), trainer="gp", progress=False)
    few = dict(list(rows.items())[:-2])
    cov = pretrain(data, "rate", ParameterSpace.from_dict({"ligand": {"levels": few}}), trainer="gp", progress=False)
    assert PretrainedCovariance.from_bytes(cov.to_bytes()) == cov


def test_descriptions_of_all_kinds_are_the_same():
    for entry in (FRAME, {"levels": FRAME}, {"levels": PHOSPHINES, "ordered": False}, SPACE["ligand"].to_spec()):
        assert ParameterSpace.from_dict({"heat": HEAT, "ligand": entry}) == SPACE
    numbered = ParameterSpace.from_dict({"batch": pd.DataFrame({"age": [1, 5]}, index=[7, 9])})
    assert numbered.to_raw([{"batch": 9}])[0, 0] == 1
    assert numbered["batch"].levels == (7, 9)


def bad(**rows):
    return {"levels": rows}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (bad(a={"p": 1, "q": 2}, b={"p": 2}), r"level 'b' must have the descriptors \['p', 'q'\].*lacks \['q'\]"),
        (bad(a={"p": 1}, b={"p": 2, "q": 1}), r"level 'b' must have .*has \['q'\] besides"),
        (bad(a={"p": 1}, b={"p": "2,5"}), r"descriptor 'p' of level 'b' .* '2,5' with a decimal comma"),
        (bad(a={"p": 1}, b={"p": None}), "descriptor 'p' of level 'b' is missing"),
        (bad(a={"p": 1}, b={"p": np.nan}), "descriptor 'p' of level 'b' is missing"),
        (bad(a={"p": 1}, b={"p": np.inf}), "descriptor 'p' of level 'b' must be a finite number"),
        (bad(a={"p": 1}, b={"p": True}), "descriptor 'p' of level 'b' must be a finite number"),
        (bad(a={"p": 1}, b=2), "level 'b' needs"),
        (bad(a={"p": 1, "q": 3}, b={"p": 2, "q": 3}), r"descriptors \['q'\] are the same for every level, 3"),
        (bad(a={"p": 1, "q": 3}, b={"p": 1, "q": 3}, c={"p": 2, "q": 4}), "levels 'a' and 'b' have the same"),
        (bad(a={"p": 1.0}, b={"p": 1 + 1e-9}, c={"p": 2}), "levels 'a' and 'b' have the same"),
        (bad(a={}, b={}), "need at least one descriptor"),
        (bad(a={"": 1}, b={"": 2}), "descriptors need different names"),
        (bad(a={"p": -1e308}, b={"p": 1e308}), "use other units"),
        (bad(a={"p": 1}), "needs at least two levels"),
        (
            {"levels": [1, True], "descriptors": [{"name": "p", "numbers": [1, 2], "bounds": [1, 2]}]},
            "cannot be both 1 and true",
        ),
        ({"levels": {}}, "needs at least two levels"),
        ({"levels": PHOSPHINES, "ordered": True}, "no order"),
        ({"levels": ["a", "b"], "descriptors": {"p": [1, 2]}}, "both are lists"),
        ({"levels": ["a", "b"], "descriptors": [{"name": "p"}]}, "a descriptor has a 'name', 'numbers'"),
        ({"levels": pd.DataFrame({"p": [1, 2]}, index=["a", "a"])}, r"levels \['a'\] occur more than once"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["p", "p"], index=["a", "b"]), r"\['p'\] occur more than once"),
        (
            bad(**{str(i): {f"d{j}": (i + 1.0) ** j for j in range(1, MOST_DESCRIPTORS + 2)} for i in range(3)}),
            f"has {MOST_DESCRIPTORS + 1} descriptors, and at most {MOST_DESCRIPTORS} are taken",
        ),
    ],
)
def test_what_describes_no_levels_is_named(entry, message):
    with pytest.raises(SpaceError, match=f"parameter 'ligand'.*{message}"):
        ParameterSpace.from_dict({"ligand": entry})


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (["PBu3"], r"levels \['PBu3'\] need their descriptors \['pKa', 'cone'\].*cov\.with_levels\(\{'ligand'"),
        ({"PBu3": {"pKa": 8.43}}, r"'PBu3' must have the descriptors .*lacks \['cone'\]"),
        ({"PEt3": {"pKa": 8.6, "cone": 132.0}}, "levels must differ"),
        ({"other": PHOSPHINES["PEt3"]}, "levels 'PEt3' and 'other' have the same"),
        ({"other": {"pKa": 1e9, "cone": 132.0}}, "use other units"),
    ],
)
def test_what_is_no_further_level_is_named(cov, levels, message):
    with pytest.raises(SpaceError, match=message):
        cov.with_levels({"ligand": levels})


def test_a_level_without_descriptors_is_named(cov):
    with pytest.raises(SpaceError, match=r"unknown level 'PEt_3'.*did you mean 'PEt3'.*descriptors \['pKa', 'cone'\]"):
        cov.predict(at("PEt_3"))
    with pytest.raises(SpaceError, match="value missing"):
        cov.predict(at(None))
    plain = pretrain(
        table(), "rate", ParameterSpace.from_dict({"heat": HEAT, "ligand": list(PHOSPHINES)}), trainer="gp"
    )
    with pytest.raises(SpaceError, match="its levels have no descriptors"):
        plain.with_levels({"ligand": FURTHER})


def columns_of(cov, space, stock="all", **settings):
    return NamedColumns.of(cov.space, cov.frame, None, space, settings.get("fixed"), stock_columns=stock)


def test_a_target_may_name_levels_alone(cov):
    target = ParameterSpace.from_dict({"ligand": ["PMe2Ph", "PCy3"], "heat": (30.0, 60.0)})
    raw = target.to_raw(at("PCy3", "PMe2Ph"))
    found = columns_of(cov, target)(raw)
    frame = cov.to_coordinates(at("PCy3", "PMe2Ph"))
    np.testing.assert_allclose(found[:, :3], frame, atol=1e-15)
    np.testing.assert_allclose(found[:, 3:5], (frame[:, 1:] + 1) / 2, atol=1e-15)  # of the stock covariance
    np.testing.assert_allclose(found[:, 5], 0.5)
    with pytest.raises(SpaceError, match=r"unknown level 'PBu3'.*needs its descriptors"):
        columns_of(cov, ParameterSpace.from_dict({"ligand": ["PBu3", "PCy3"], "heat": HEAT}))


def test_a_target_may_describe_further_levels(cov):
    rows = FURTHER | {"PCy3": PHOSPHINES["PCy3"]}
    target = ParameterSpace.from_dict({"ligand": {"levels": rows}, "heat": (30.0, 60.0)})
    wide = for_target(cov, levels_by_name(target, None))
    assert wide == cov.with_levels({"ligand": FURTHER})
    found = columns_of(wide, target)(target.to_raw(at("PBu3", "PCy3")))
    np.testing.assert_allclose(found[:, :3], wide.to_coordinates(at("PBu3", "PCy3")), atol=1e-15)
    np.testing.assert_allclose(found[:, 3:5], [[0, 0], [1, 1]], atol=1e-15)  # by the target's own range
    fixed = columns_of(wide, ParameterSpace.from_dict({"heat": HEAT}), fixed={"ligand": "PBu3"})
    np.testing.assert_allclose(fixed(np.array([[45.0]]))[:, :3], wide.to_coordinates(at("PBu3")), atol=1e-15)
    far = ParameterSpace.from_dict({"ligand": {"levels": rows | {"PMe3": {"pKa": 8.65, "cone": 118.0}}}, "heat": HEAT})
    with pytest.warns(TableWarning, match="'cone' of 'PMe3' is 118, beyond 122 to 182"):
        for_target(cov, levels_by_name(far, None))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"PCy3": {"pKa": 9.7}, "PPh3": {"pKa": 2.73}}, r"has the descriptors \['pKa'\] in the target but"),
        (
            {"PCy3": PHOSPHINES["PCy3"], "PPh3": {"pKa": 2.8, "cone": 145.0}},
            "'pKa' of 'PPh3' is 2.8 in the target but 2.73 in the table",
        ),
    ],
)
def test_a_target_that_describes_levels_otherwise_is_refused(cov, rows, message):
    with pytest.raises(SpaceError, match=message):
        columns_of(cov, ParameterSpace.from_dict({"heat": HEAT, "ligand": {"levels": rows}}))


def test_descriptors_serve_the_stock_covariance_where_the_table_has_none():
    cov = pretrain(table(), "rate", PLAIN, trainer="gp", progress=False)
    found = columns_of(cov, SPACE)(SPACE.to_raw(at("PCy3")))
    np.testing.assert_allclose(found[0, :6], cov.to_coordinates(at("PCy3"))[0], atol=1e-15)
    np.testing.assert_allclose(found[0, 6:], SPACE.to_coordinates(SPACE.to_raw(at("PCy3")), "unit")[0], atol=1e-15)


def test_a_relaxed_index_moves_between_levels_and_has_a_gradient(cov):
    target = columns_of(cov, SPACE)
    x = torch.tensor([[45.0, 1.25]], dtype=torch.double, requires_grad=True)
    target(x)[0, 1].backward()
    one, other = (SPACE.to_coordinates(np.array([45.0, k]))[1] for k in (1.0, 2.0))
    assert x.grad[0, 1].item() == pytest.approx(other - one)
    assert target(x)[0, 1].item() == pytest.approx(0.75 * one + 0.25 * other)


def test_some_of_the_levels_keep_their_place():
    raw = SPACE.to_raw(at("PCy3", "PEt3", heat=30.0) + at("PCy3", "PEt3", heat=50.0))
    narrow = _narrowed(SPACE, raw)
    assert isinstance(narrow["ligand"], Described)
    assert narrow["ligand"].levels == ("PCy3", "PEt3")
    again = narrow.to_coordinates(narrow.to_raw(at("PEt3")))[:, 1:]
    np.testing.assert_array_equal(again, SPACE.to_coordinates(SPACE.to_raw(at("PEt3")))[:, 1:])


def test_what_was_learned_is_said_of_descriptors(cov):
    heat, ligand = describe_parameters(cov)
    assert heat[2].endswith("x range")
    assert ligand[1].endswith("PEt3; by pKa, cone")
    assert ligand[2].split("x range of ")[1] in {"pKa", "cone"}
    assert ligand[3].total > 0.2


def test_first_points_may_have_a_further_level(cov):
    points = cov.with_levels({"ligand": FURTHER}).starting_points(25, "unknown")
    assert {point["ligand"] for point in points} == {*PHOSPHINES, *FURTHER}
