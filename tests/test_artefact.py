"""The saved covariance: it reads back exactly, and nothing but what was saved is ever read."""

import contextlib
import copy
import dataclasses
import hashlib
import json
import os
import pickle
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mkbo_plugins import CombinedCovariance, ParameterSpace, PretrainedCovariance
from mkbo_plugins.core import (
    Exponential,
    FreeKernel,
    Linear,
    Polynomial,
    SquaredExponential,
    TaylorSeries,
    WeightedPoints,
)
from mkbo_plugins.core.components.campaigns import Campaigns
from mkbo_plugins.core.components.components import PretrainedComponents
from mkbo_plugins.core.components.decision import DecisionFunction
from mkbo_plugins.covariance.base import GRAM_FORMS
from mkbo_plugins.covariance.campaigns import CampaignRecord, SharedFit
from mkbo_plugins.covariance.limits import (
    CHARACTERS,
    CONSTRAINTS,
    COORDINATE,
    COORDINATES,
    DEGREE,
    ERROR,
    LEAST_COEFFICIENT,
    MOST_BYTES,
    SIGMA,
    SPREAD,
    SUPPORT,
    TABLES,
    VALUE,
    WEIGHT,
)
from mkbo_plugins.covariance.record import TrainingRecord
from mkbo_plugins.errors import ArtefactError

SVM_RECORD = TrainingRecord("y", 24, 5.0, 0.7, "regression", "svm", 5.0, 0.05, 0.03)
GP_RECORD = TrainingRecord("y", 24, 5.0, 0.7, "regression", "gp", None, None, 0.03, ("a remark — with ünïcode",))
KERNELS = [
    SquaredExponential(sigma=0.36),
    SquaredExponential(sigma=1.7, weights=(0.1, 0.3)),
    Exponential(sigma=2.5),
    Polynomial(degree=5),
    Linear(weights=(1 / 3, 2 / 3)),
    TaylorSeries(coefficients=(1.0, 0.0, 0.1, 1e-9)),
]


def plane() -> ParameterSpace:
    return ParameterSpace.from_dict({"a": (0, 1), "b": (1e-3, 10, "log")})


def build(
    kernel: FreeKernel | None = None,
    points: list[list[float]] | None = None,
    alpha: list[float] | None = None,
    record: TrainingRecord = SVM_RECORD,
    space: ParameterSpace | None = None,
    **settings,
) -> PretrainedCovariance:
    points = [[0.1, -0.7], [0.5, 0.2], [-1.0, 1.0]] if points is None else points
    alpha = [1.0, -0.25, -0.75] if alpha is None else alpha
    values = {"bias": 4.9, "mean_diagonal": 1.3, "decision_mean": 5.0, "decision_spread": 0.6} | settings
    frame, log_target = values.pop("frame", "centred"), values.pop("log_target", False)
    decision = DecisionFunction(
        SquaredExponential(sigma=0.36) if kernel is None else kernel,
        WeightedPoints(np.array(points), np.array(alpha)),
        values.pop("bias"),
    )
    fixed = PretrainedComponents(decision, **values)
    return PretrainedCovariance(space or plane(), frame, fixed, record, log_target, (record,) * len(fixed.earlier))


def build_chain() -> PretrainedCovariance:
    """Return a covariance that a further table re-weights too."""
    return build(earlier=(WeightedPoints(np.array([[0.2, 0.3], [-0.4, 0.9]]), np.array([0.5, -0.5])),))


def build_campaigns() -> PretrainedCovariance:
    """Return a covariance of three campaigns."""
    rng = np.random.default_rng(0)
    kernel = SquaredExponential(sigma=0.5, weights=(0.4, 1.0))
    pooled = Campaigns(kernel, rng.uniform(-1, 1, (4, 2)), rng.normal(size=(3, 4)), rng.normal(size=3))
    records = tuple(CampaignRecord(f"run {i}", 9 + i, 10.0**i, 2.0, 0.1 * i) for i in range(3))
    alone = build()
    return dataclasses.replace(alone, fixed=dataclasses.replace(alone.fixed, campaigns=pooled), campaigns=records)


def build_library() -> PretrainedCovariance:
    """Return a covariance of three campaigns with dates, to which others can be added."""
    cov = build_campaigns()
    shared = SharedFit(1.5, 0.01, True, 40, (0.5, 1.0), None, (2.0,), ("a remark",))
    first, second, third = cov.campaigns
    told = dataclasses.replace(first, date="2026-11-03"), dataclasses.replace(second, date="2026-11-03/2027-01-02")
    return dataclasses.replace(cov, campaigns=(*told, dataclasses.replace(third, added=True)), shared=shared)


def build_described() -> PretrainedCovariance:
    """Return a covariance of levels that two numbers describe, one of which lies beyond the others."""
    rows = {"DMF": {"boils": 153.0, "polar": 36.7}, "THF": {"boils": 66.0, "polar": 7.6}}
    cov = build(space=ParameterSpace.from_dict({"solvent": {"levels": rows}}))
    return cov.with_levels({"solvent": {"DMSO": {"boils": 189.0, "polar": 46.7}}})


def build_combined() -> CombinedCovariance:
    """Return a covariance of two tables with one parameter in common."""
    other = ParameterSpace.from_dict({"b": (1e-3, 10, "log"), "c": (0, 5)})
    return CombinedCovariance((build(), build(space=other, bias=2.0)))


def reseal(document: dict, content: dict) -> bytes:
    """Return the bytes of a file with this content and a matching checksum."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    whole = document | {"content": content, "checksum": hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def refuse(data: bytes, folder: Path, *words: str) -> None:
    path = folder / "knowledge.mkbo.json"
    path.write_bytes(data)
    with pytest.raises(ArtefactError) as caught:
        PretrainedCovariance.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "take a fresh copy" in message or "upgrade mkbo_plugins" in message
    for word in words:
        assert word in message


def python(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Reading back


POINTS = (
    "points = [{'power': p, 'rate': r, 'layers': n, 'gas': g} for p, r, n, g in"
    " [(100, 1e-5, 1, 'Air'), (777.7, 3e-4, 4, 'Argon'), (6000, 0.1, 6, 'Nitrogen')]]"
)


@pytest.mark.parametrize("name", ["cov", "gp_cov"])
def test_gram_in_a_new_process_is_the_same_bit_for_bit(name, request, tmp_path):
    cov = request.getfixturevalue(name)
    path = cov.save(tmp_path / "knowledge.mkbo.json")
    script = f"""
import sys
from mkbo_plugins import PretrainedCovariance
cov = PretrainedCovariance.load(sys.argv[1])
{POINTS}
for form in {GRAM_FORMS}:
    print(cov.gram(points, form=form).tobytes().hex(), cov.gram(points[:2], points, form=form).tobytes().hex())
print(cov.predict(points).tobytes().hex())
print(cov.fingerprint)
"""
    scope: dict = {}
    exec(POINTS, scope)
    points = scope["points"]
    expected = [
        f"{cov.gram(points, form=f).tobytes().hex()} {cov.gram(points[:2], points, form=f).tobytes().hex()}"
        for f in GRAM_FORMS
    ]
    expected += [cov.predict(points).tobytes().hex(), cov.fingerprint]
    for seed in ("0", "4321"):
        assert python(script, str(path), PYTHONHASHSEED=seed).split("\n")[:-1] == expected


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("record", [SVM_RECORD, GP_RECORD], ids=["svm", "gp"])
@pytest.mark.parametrize("frame", ["centred", "unit"])
@pytest.mark.parametrize("log_target", [False, True])
def test_everything_reads_back(kernel, record, frame, log_target, tmp_path):
    cov = build(kernel, record=record, frame=frame, log_target=log_target)
    path = cov.save(tmp_path / "knowledge.mkbo.json")
    back = PretrainedCovariance.load(path)
    assert back == cov
    assert hash(back) == hash(cov)
    assert back.fingerprint == cov.fingerprint
    assert (type(back.kernel), back.frame, back.log_target, back.record) == (type(kernel), frame, log_target, record)
    assert back.save(tmp_path / "again.mkbo.json").read_bytes() == path.read_bytes()


def test_every_kind_of_parameter_reads_back(tmp_path):
    spec = {
        "real": (0.1, 0.3),
        "log": (1e-300, 1e-7, "log"),
        "whole": (1, 6, "int"),
        "both": (1, 1000, "int", "log"),
        "grade": {"levels": [1, 2.5, 7]},
        "size": {"levels": ["small", "large"], "ordered": True},
        "mixed": {"levels": ["1", 1, True, 0.1], "ordered": False},
        'näme "quoted"\n': (0, 1),
    }
    space = ParameterSpace.from_dict(spec)
    d = len(space.coordinate_names)
    cov = build(space=space, points=[[0.1] * d, [0.2] * d], alpha=[1.0, -1.0])
    back = PretrainedCovariance.load(cov.save(tmp_path / "knowledge.mkbo.json"))
    assert back.space == space
    assert back.space.names == tuple(spec)
    kinds = [[type(level) for level in parameter.levels] for parameter in back.space.parameters[4:7]]
    assert kinds == [[int, float, int], [str, str], [str, int, bool, float]]


HARD_FLOATS = st.one_of(
    st.floats(*VALUE),
    st.sampled_from([-0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, VALUE.most, 0.1, 1 / 3, 1e22]),
)
HARD_COORDINATES = HARD_FLOATS.filter(lambda value: abs(value) <= COORDINATE.most)
COEFFICIENTS = HARD_FLOATS.filter(lambda value: LEAST_COEFFICIENT <= abs(value) <= 1e20)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(HARD_COORDINATES, HARD_COORDINATES, COEFFICIENTS), min_size=1, max_size=4),
    signed=st.tuples(HARD_FLOATS, HARD_FLOATS, st.floats(*ERROR)),
    positive=st.tuples(st.floats(1, SIGMA.most), st.floats(*WEIGHT), st.floats(1e-10, SPREAD.most)),
)
def test_floats_read_back_bit_for_bit(rows, signed, positive, tmp_path):
    bias, mean, loo_mse = signed
    kernel = SquaredExponential(sigma=positive[0], weights=(positive[1], 0.1))
    cov = build(
        kernel,
        [list(row[:2]) for row in rows],
        [row[2] for row in rows],
        dataclasses.replace(SVM_RECORD, loo_mse=loo_mse, target_mean=mean),
        bias=bias,
        decision_mean=mean,
        mean_diagonal=positive[1] * 1e10,
        decision_spread=positive[2],
    )
    back = PretrainedCovariance.load(cov.save(tmp_path / "knowledge.mkbo.json"))
    assert back.support.tobytes() == cov.support.tobytes()
    assert back.alpha.tobytes() == cov.alpha.tobytes()

    def scalars(c: PretrainedCovariance) -> bytes:
        fixed, record = c.fixed, c.record
        values = (c.bias, fixed.decision_mean, fixed.mean_diagonal, fixed.decision_spread, record.loo_mse)
        return struct.pack("8d", *values, record.target_mean, c.sigma, c.weights[0])

    assert scalars(back) == scalars(cov)


# Refusing


def flip_bit(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]


def replace_byte(data, rng):
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice([b for b in range(256) if b != data[at]])]) + data[at + 1 :]


def swap_digit(data, rng):
    at = rng.choice([i for i, byte in enumerate(data) if chr(byte).isdigit()])
    return data[:at] + bytes([rng.choice([b for b in b"0123456789" if b != data[at]])]) + data[at + 1 :]


def cut(data, rng):
    return data[: rng.randrange(len(data))]


def cut_start(data, rng):
    return data[rng.randrange(1, len(data)) :]


def insert_space(data, rng):
    # Outside of texts, where JSON ignores it.
    at = rng.choice([0, len(data), *(i for i, byte in enumerate(data) if chr(byte) in ",:{}[]")])
    return data[:at] + rng.choice([b" ", b"\n", b"\t", b"\r\n"]) + data[at:]


def drop_bytes(data, rng):
    at = rng.randrange(len(data) - 1)
    return data[:at] + data[at + rng.randrange(1, 40) :]


def double_span(data, rng):
    at = rng.randrange(len(data) - 40)
    return data[: at + 40] + data[at:]


def append(data, rng):
    return data + rng.choice([b"\n", b" ", b"\0", b"{}", data, b"null", b"\xff"])


def end_of_line(data, rng):
    return rng.choice([data[:-1], data[:-1] + b"\r\n", data + b"\n", data[:-1] + b" \n", b"\xef\xbb\xbf" + data])


def binary(data, rng):
    return rng.randbytes(rng.randrange(0, 3000))


def other_json(data, rng):
    return json.dumps(
        rng.choice([None, 1, [], {}, "text", {"format": "other"}, [[]] * 9, {"content": {}}, True, -0.5])
    ).encode()


def _leaves(value, path=()):
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and value and path[-1] != "levels":
        yield path
        yield from _leaves(value[0], (*path, 0))
    else:
        yield path


def _at(content, path):
    for step in path[:-1]:
        content = content[step]
    return content


def wrong_type(data, rng):
    """Give a value another JSON type, and make the checksum match."""
    document = json.loads(data)
    content = document["content"]
    path = rng.choice(list(_leaves(content)))
    old = _at(content, path)[path[-1]]
    others = [None, {}, [], [[]], "text", "1", True, 7, 0.5, 10**400, {"a": [1]}, [None], -1, {"bounds": 3}]
    _at(content, path)[path[-1]] = rng.choice(
        [v for v in others if type(v) is not type(old) and not (v is None and path[-1] in ("C", "epsilon", "weights"))]
    )
    return reseal(document, content)


def deleted_key(data, rng):
    document = json.loads(data)
    content = document["content"]
    further = [("earlier",), ("campaigns",)]
    path = rng.choice([path for path in _leaves(content) if isinstance(path[-1], str) and path not in further])
    path = path[: rng.randrange(1, len(path) + 1)]
    while not isinstance(path[-1], str):
        path = path[:-1]
    # Without further tables or campaigns it is a whole covariance, though another one.
    path = {("earlier",): ("earlier", 0, "alpha"), ("campaigns",): ("campaigns", "points")}.get(path, path)
    del _at(content, path)[path[-1]]
    return reseal(document, content)


def unknown_key(data, rng):
    document = json.loads(data)
    content = document["content"]
    one = rng.choice(content["members"]) if "members" in content else content
    tables = [table["record"] for table in one.get("earlier", [])]
    pooled = [one["campaigns"], *one["campaigns"]["members"]] if "campaigns" in one else []
    rng.choice([content, one, one["record"], one["kernel"], *tables, *pooled])["note"] = rng.choice([1, "x", None, []])
    return reseal(document, content)


def doubled_key(data, rng):
    at = rng.choice([i for i, byte in enumerate(data) if byte == ord("{")]) + 1
    key = data[at : data.index(b":", at)]
    return data[:at] + key + b":" + rng.choice([b"1", b"null", b"[]", b'"x"']) + b"," + data[at:]


def future_version(data, rng):
    document = json.loads(data)
    document["schema_version"] = rng.choice([2, 3, 99, 10**30])
    return reseal(document, document["content"])


def wrong_version(data, rng):
    document = json.loads(data)
    document["schema_version"] = rng.choice([0, -1, "1", 1.0, True, None, [1], {}])
    return reseal(document, document["content"])


def not_finite(data, rng):
    document = json.loads(data)
    content = document["content"]
    path = rng.choice([path for path in _leaves(content) if isinstance(_at(content, path)[path[-1]], float)])
    _at(content, path)[path[-1]] = rng.choice([float("nan"), float("inf"), -float("inf")])
    return reseal(document, content)


CORRUPTIONS = [
    flip_bit,
    replace_byte,
    swap_digit,
    cut,
    cut_start,
    insert_space,
    drop_bytes,
    double_span,
    append,
    end_of_line,
    binary,
    other_json,
    wrong_type,
    deleted_key,
    unknown_key,
    doubled_key,
    future_version,
    wrong_version,
    not_finite,
]


@pytest.mark.parametrize("seed", range(15 * len(CORRUPTIONS)))
def test_corrupted_file_is_refused(seed, cov, gp_cov, tmp_path):
    rng = random.Random(seed)
    whole = rng.choice(
        [cov, gp_cov, build(KERNELS[seed % len(KERNELS)]), build_chain(), build_combined(), build_campaigns()]
    )
    original = whole.save(tmp_path / "knowledge.mkbo.json").read_bytes()
    corrupt = CORRUPTIONS[seed % len(CORRUPTIONS)]
    data = corrupt(original, rng)
    assert data != original
    refuse(data, tmp_path)


def edited(**changes):
    """Return an edit of the content: dotted names to values."""

    def edit(content):
        for name, value in changes.items():
            *steps, last = name.split("__")
            for step in steps:
                content = content[step]
            content[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (edited(bias="4.9"), "'bias'"),
        (edited(bias=10**400), "'bias'"),
        (edited(bias=5), "not as this version writes it"),
        (edited(alpha=[0.0, 0.0, 0.0]), "alpha"),
        (edited(alpha=[1.0, -1.0]), "alpha"),
        (edited(alpha=[1.0, -1.0, 10**400]), "'alpha'"),
        (edited(support=[]), "'support'"),
        (edited(support=[[0.1, 0.2], [0.1], [0.1, 0.2]]), "'support'"),
        (edited(support=[[0.1], [0.2], [0.3]]), "coordinates"),
        (edited(mean_diagonal=0.0), "'mean_diagonal'"),
        (edited(decision_spread=-0.6), "'decision_spread'"),
        (edited(frame="polar"), "'frame'"),
        (edited(log_target=0), "'log_target'"),
        (edited(kernel__kind="os.system"), "'kind'"),
        (edited(kernel__sigma=-0.36), "sigma"),
        (edited(kernel__weights=[1.0]), "coordinates"),
        (edited(kernel__weights=[1.0, -1.0]), "weights"),
        (edited(record__trainer="magic"), "'trainer'"),
        (edited(record__rows=24.0), "'rows'"),
        (edited(record__notes="text"), "'notes'"),
        (edited(record__classes=["x"]), "'classes'"),
        (edited(space={"a": [0, 1]}), "'space'"),
        (edited(space=[["a", {"bounds": [0.0, 1.0]}], ["a", {"bounds": [0.0, 1.0]}]]), "twice"),
        (edited(space=[["a", {"bounds": [1.0, 0.0]}], ["b", {"bounds": [0.0, 1.0]}]]), "lower bound"),
        (edited(space=[["a", {"bounds": [0, 10**400]}], ["b", {"bounds": [0.0, 1.0]}]]), "bounds"),
        (edited(space=[["a", [["x"], ["y"]]], ["b", {"bounds": [0.0, 1.0]}]]), "levels"),
        (edited(space=[["a", {"bounds": [0.0, 1.0]}], ["b", {"bounds": [0.0, 1.0]}]]), "not as this version writes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "edited",
)
def test_resealed_content_without_meaning_is_refused(edit, words, tmp_path):
    document = json.loads(build().save(tmp_path / "knowledge.mkbo.json").read_bytes())
    edit(document["content"])
    refuse(reseal(document, document["content"]), tmp_path, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content.update(earlier=[]), "not as this version writes"),
        (lambda content: content.update(earlier={}), "'earlier'"),
        (lambda content: content["earlier"].append(5), "earlier[1]"),
        (lambda content: content["earlier"][0].update(alpha=[1.0]), "alpha"),
        (lambda content: content["earlier"][0].update(support=[[1.0], [2.0]]), "coordinates"),
        (lambda content: content["earlier"][0]["record"].pop("rows"), "earlier[0].record.'rows'"),
        (lambda content: content["earlier"][0].update(bias=1.0), "not as this version writes"),
    ],
    ids=["empty", "mapping", "number", "alpha", "support", "record", "unknown"],
)
def test_further_tables_without_meaning_are_refused(change, words, tmp_path):
    document = json.loads(build_chain().save(tmp_path / "knowledge.mkbo.json").read_bytes())
    change(document["content"])
    refuse(reseal(document, document["content"]), tmp_path, words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda members: members.clear(), "two or more"),
        (lambda members: members.pop(), "two or more"),
        (lambda members: members.append(5), "members[2]"),
        (lambda members: members.append({"members": members[:]}), "members[2].'kernel' is missing"),
        (lambda members: members[1].update(frame="unit"), "frames"),
        (lambda members: members[1].update(bias="2"), "members[1].'bias'"),
        (lambda members: members[1]["space"][0][1].update(log=False), "'b'"),
        (lambda members: members[0].update(mean_diagonal=-1.0), "members[0].'mean_diagonal'"),
    ],
    ids=["none", "one", "number", "nested", "frame", "bias", "space", "diagonal"],
)
def test_members_without_meaning_are_refused(change, words, tmp_path):
    document = json.loads(build_combined().save(tmp_path / "knowledge.mkbo.json").read_bytes())
    change(document["content"]["members"])
    refuse(reseal(document, document["content"]), tmp_path, words)


def first(**changes):
    """Return an edit of the first campaign."""
    return lambda pooled: pooled["members"][0].update(changes)


def shared(**changes):
    """Return an edit of what campaigns share."""
    return lambda pooled: pooled["shared"].update(changes)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda pooled: pooled["members"].clear(), "campaigns.'members' must be two or more"),
        (lambda pooled: pooled.update(members=pooled["members"] * 2_000), "at most 1000 entries"),
        (lambda pooled: pooled["points"].pop(), "with 3 numbers in 'alpha' each"),
        (lambda pooled: pooled.update(points=[[0.1]] * 4), "must have the space's 2 coordinates"),
        (lambda pooled: pooled["kernel"].update(weights=[1.0]), "must have the space's 2 coordinates"),
        (lambda pooled: pooled["points"][0].__setitem__(0, 1e300), "rows of numbers from"),
        (first(alpha=[1e300, 0.0, 0.0, 0.0]), "campaigns.members[0].'alpha' must be a list of numbers from"),
        (first(alpha=[1e119, 0.0, 0.0, 0.0]), "too small beside 1e+119"),
        (first(bias=1e119), "too small beside 1e+119"),
        (first(name=""), "a name each"),
        (first(name="run \ud83d!"), "half a character"),
        (first(name="run 1"), "a name each, of its own"),
        (first(name="x" * (CHARACTERS + 1)), f"at most {CHARACTERS} characters"),
        (first(rows=0), "'rows' must be a whole number from"),
        (first(target_spread=0.0), "'target_spread' must be a number from"),
        (first(date="3.11.2026"), "'date' must be a day or two"),
        (first(date="2026-11-03/2026-11-01"), "'date' must be a day or two"),
        (first(date=None), "'date' must be text"),
        (first(added=1), "'added' must be true or false"),
        (first(added=False), "not as this version writes it"),
        (shared(amplitude=0.0), "campaigns.shared.'amplitude' must be a number from"),
        (shared(noise=-1.0), "'noise' must be a number from"),
        (shared(ard="yes"), "'ard' must be true or false"),
        (shared(max_rows=2), "'max_rows' must be a whole number from"),
        (shared(C="1"), "'C' must be a list"),
        (shared(sigma=[-1.0]), "'sigma' must be a list of numbers"),
        (shared(notes=[1]), "'notes' must be a list of texts"),
    ],
)
def test_campaigns_without_meaning_are_refused(change, words, tmp_path):
    document = json.loads(build_library().to_bytes())
    change(document["content"]["campaigns"])
    refuse(reseal(document, document["content"]), tmp_path, words)


def test_campaigns_that_fill_no_file_say_what_would():
    fixed, alpha = build_campaigns().fixed, np.random.default_rng(0).random((900, 500))
    pooled = dataclasses.replace(fixed.campaigns, points=np.zeros((500, 2)), alpha=alpha, bias=np.zeros(900))
    records = tuple(CampaignRecord(f"run {i}", 9, 0.0, 1.0, 0.1) for i in range(900))
    cov = dataclasses.replace(build(), fixed=dataclasses.replace(fixed, campaigns=pooled), campaigns=records)
    with pytest.raises(ArtefactError, match=r"cannot be saved.*larger than 4 MiB.*max_rows"):
        cov.to_bytes()


LINE = {"bounds": [0.0, 1.0], "integer": False, "log": False}
SUM = {"at_least": 0.0, "at_most": None, "coefficients": [["a", 1.0]]}
ABSURD = {
    "degree": (edited(kernel={"kind": "polynomial", "degree": 10**9, "weights": None}), f"1 to {DEGREE}"),
    "coefficients": (
        edited(kernel={"kind": "taylor", "coefficients": [1.0] * 10**5, "weights": None}),
        f"at most {DEGREE + 1} entries",
    ),
    "spread": (edited(record__target_spread=0.0), "record.'target_spread' must be a number from"),
    "alpha": (edited(alpha=[1e308, -1e308, 1.0]), "'alpha' must be a list of numbers from"),
    "sigma": (edited(kernel__sigma=1e-300), "kernel.'sigma' must be a number from"),
    "weights": (edited(kernel__weights=[1.0, 1e-300]), "kernel.'weights' must be a list of numbers from"),
    "ratio": (edited(kernel={"kind": "se", "sigma": 1e-9, "weights": [1.0, 1e9]}), "at most 1e+15 times 'sigma'"),
    "series": (edited(kernel={"kind": "polynomial", "degree": 100, "weights": [1.0, 1e6]}), "overflow in degree 100"),
    "least": (edited(alpha=[5e-324, -1.0, 1.0]), "'alpha' must be 0 or at least"),
    "rows": (edited(record__rows=-5), "record.'rows' must be a whole number from"),
    "error": (edited(record__loo_mse=-0.1), "record.'loo_mse' must be a number from"),
    "cancelled": (edited(decision_spread=1e-31), "too small beside 1 in 'alpha'"),
    "diagonal": (edited(mean_diagonal=1e-62), "too small beside 1 in 'alpha'"),
    "support": (
        edited(support=[[0.1, 0.2]] * (SUPPORT + 1), alpha=[1.0] * (SUPPORT + 1)),
        f"'support' must have at most {SUPPORT} entries",
    ),
    "coordinate": (edited(support=[[0.1, 1e300], [0.1, 0.2], [0.3, 0.4]]), "rows of numbers from"),
    "levels": (
        edited(space=[["a", {"levels": [*map(str, range(COORDINATES))], "ordered": False}], ["b", LINE]]),
        f"at most {COORDINATES} parameters, levels and descriptors",
    ),
    "ordered levels": (
        edited(space=[["a", {"levels": [*map(float, range(COORDINATES))], "ordered": True}], ["b", LINE]]),
        f"at most {COORDINATES} parameters, levels and descriptors",
    ),
    "constraints": (edited(constraints=[SUM] * (CONSTRAINTS + 1)), f"at most {CONSTRAINTS} entries"),
    "text": (edited(record__target="x" * (CHARACTERS + 1)), f"at most {CHARACTERS} characters"),
    "bytes": (edited(record__notes=["x" * CHARACTERS] * (1 + MOST_BYTES // CHARACTERS)), "larger than 4 MiB"),
}


@pytest.mark.parametrize("what", ABSURD)
def test_what_is_beyond_the_limits_is_refused(what, tmp_path):
    edit, words = ABSURD[what]
    document = json.loads(build().to_bytes())
    edit(document["content"])
    refuse(reseal(document, document["content"]), tmp_path, words)


@pytest.mark.parametrize(("make", "key"), [(build_chain, "earlier"), (build_combined, "members")])
def test_too_many_tables_are_refused(make, key, tmp_path):
    document = json.loads(make().to_bytes())
    document["content"][key] = document["content"][key][:1] * (TABLES + 1)
    refuse(reseal(document, document["content"]), tmp_path, f"{key!r} must have at most")


def test_what_is_read_from_a_file_is_bounded(tmp_path):
    (tmp_path / "endless").symlink_to("/dev/zero")
    with pytest.raises(ArtefactError, match="larger than 4 MiB"):
        PretrainedCovariance.load(tmp_path / "endless")


def test_a_covariance_of_one_table_is_stored_as_ever():
    """Files and fingerprints of versions without several tables stay as they were."""
    assert build().fingerprint == "1a1e0eea043174a2aea6dc0a3679651c3971cdcc97f339c89c534d13cb74e85d"
    assert build_campaigns().fingerprint == "ed5f8d9cfe02acc18259b1dab15f57d151dcd0186c5da2113baa18e116fc982a"
    assert build_described().fingerprint == "7d7fdb01f484e8ee61e34485185f0a070b9949305f96759263443beca048c6c2"


@pytest.mark.parametrize("make", [build, build_chain, build_combined, build_campaigns, build_library, build_described])
def test_unchanged_content_resealed_is_accepted(make, tmp_path):
    """The tests above refuse for the reason they name, not for how they write files."""
    cov = make()
    path = cov.save(tmp_path / "knowledge.mkbo.json")
    document = json.loads(path.read_bytes())
    path.write_bytes(reseal(document, document["content"]))
    assert PretrainedCovariance.load(path) == cov


def test_a_changed_number_is_called_altered(tmp_path):
    data = build().save(tmp_path / "knowledge.mkbo.json").read_bytes()
    assert b"-0.25" in data
    refuse(data.replace(b"-0.25", b"-0.26"), tmp_path, "altered since it was saved")


def test_newer_version_says_upgrade(tmp_path):
    document = json.loads(build().save(tmp_path / "knowledge.mkbo.json").read_bytes())
    refuse(reseal(document | {"schema_version": 2}, document["content"]), tmp_path, "version 2", "upgrade")


def test_deeply_nested_text_is_refused(tmp_path):
    refuse(b"[" * 100_000 + b"]" * 100_000, tmp_path)
    refuse(b'{"a":' * 100_000 + b"1" + b"}" * 100_000, tmp_path)
    refuse(b'{"schema_version":' + b"9" * 5000 + b"}", tmp_path)


def test_pickle_in_place_of_a_file_is_refused_and_not_run(tmp_path):
    trap = tmp_path / "trap"

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(trap),)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        refuse(pickle.dumps(Trap(), protocol), tmp_path)
    assert not trap.exists()


def test_artefact_module_imports_nothing_that_runs_code():
    source = (Path(__file__).parents[1] / "mkbo_plugins" / "covariance" / "container.py").read_text()
    for word in ("pickle", "marshal", "eval(", "exec(", "importlib", "__import__", "joblib"):
        assert word not in source


@pytest.mark.parametrize("name", ["missing.json", "folder", "a\0b", "file/below.json"])
def test_unreadable_path_is_refused(name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match="check the path") as caught:
        PretrainedCovariance.load(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize("name", ["missing/knowledge.json", "folder", "a\0b", "file/below.json", "x" * 300])
def test_unwritable_path_is_refused_and_leaves_nothing(name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(ArtefactError, match="existing folder") as caught:
        build().save(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@dataclasses.dataclass(frozen=True)
class HomeMade(Polynomial):
    """A kernel no file knows."""


@pytest.mark.parametrize(
    "cov",
    [
        build(HomeMade()),
        build(mean_diagonal=float("inf")),
        build(Polynomial(degree=DEGREE + 1)),
        build(record=dataclasses.replace(SVM_RECORD, loo_mse=float("nan"))),
        build(record=dataclasses.replace(SVM_RECORD, target=5)),
        build(log_target=1),
        build(log_target=np.True_),
    ],
    ids=["kernel", "infinite", "degree", "nan", "target", "flag", "numpy flag"],
)
def test_what_could_not_be_loaded_is_not_saved(cov, tmp_path):
    path = build().save(tmp_path / "knowledge.mkbo.json")
    before = path.read_bytes()
    with pytest.raises(ArtefactError, match="cannot be saved"):
        cov.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Writing


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_failure_while_saving_leaves_the_old_file(step, tmp_path, monkeypatch):
    path = build().save(tmp_path / "knowledge.mkbo.json")
    before = path.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(ArtefactError, match="No space left"):
        build(bias=1.0).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


KILLING = """
import os, random, signal, sys, time
from mkbo_plugins import PretrainedCovariance
folder, path = sys.argv[1], sys.argv[1] + "/knowledge.mkbo.json"
first = PretrainedCovariance.load(folder + "/first.json")
second = PretrainedCovariance.load(folder + "/second.json")
good = {first.fingerprint, second.fingerprint}

def check():
    found = PretrainedCovariance.load(path).fingerprint
    assert found in good
    return found

def finish(child):
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

# Killed at random times while saving one after the other.
first.save(path)
rng = random.Random(0)
found = set()
for _ in range(40):
    child = os.fork()
    if child == 0:
        while True:
            second.save(path)
            first.save(path)
    time.sleep(rng.uniform(0.002, 0.05))
    os.kill(child, signal.SIGKILL)
    assert finish(child)
    found.add(check())

# Killed at every line that runs while saving, from the first file that is opened.
lines = 0
while True:
    first.save(path)
    child = os.fork()
    if child == 0:
        left, opened = lines, False
        def audit(event, _):
            global opened
            opened = opened or event == "open"
        def trace(frame, event, _):
            global left
            if opened and event == "line":
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1
            return trace
        sys.addaudithook(audit)
        sys.settrace(trace)
        second.save(path)
        sys.settrace(None)
        os._exit(0)
    killed = finish(child)
    last = check()
    if not killed:
        break
    lines += 1
assert last == second.fingerprint
print(len(found), lines)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork to kill a process that saves")
def test_kill_while_saving_never_leaves_a_broken_file(tmp_path):
    points = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    for name, bias in (("first", 1.0), ("second", 2.0)):
        build(points=points.tolist(), alpha=points[:, 0].tolist(), bias=bias).save(tmp_path / f"{name}.json")
    found, lines = python(KILLING, str(tmp_path)).split()
    assert int(found) == 2, "every random kill came before the first save or at the same phase"
    assert int(lines) > 20


@pytest.mark.skipif(os.name != "posix", reason="file permissions of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
def test_permissions_follow_the_umask(mask, tmp_path):
    before = os.umask(mask)
    try:
        path = build().save(tmp_path / "knowledge.mkbo.json")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o666 & ~mask


def test_save_returns_the_path_and_accepts_text(tmp_path):
    path = build().save(str(tmp_path / "knowledge.mkbo.json"))
    assert path == tmp_path / "knowledge.mkbo.json"
    assert PretrainedCovariance.load(str(path)) == build()


# Equality and freezing


def test_equal_when_built_from_equal_parts():
    assert build() == build()
    assert hash(build()) == hash(build())
    assert build().fingerprint == build().fingerprint


@pytest.mark.parametrize(
    "other",
    [
        build(bias=np.nextafter(4.9, 5)),
        build(alpha=[1.0, -0.25, np.nextafter(-0.75, 0)]),
        build(points=[[0.1, -0.7], [0.5, 0.2], [-1.0, np.nextafter(1.0, 0)]]),
        build(SquaredExponential(sigma=0.37)),
        build(Exponential(sigma=0.36)),
        build(SquaredExponential(sigma=0.36, weights=(1.0, 1.0))),
        build(mean_diagonal=1.4),
        build(decision_mean=5.1),
        build(decision_spread=0.7),
        build(frame="unit"),
        build(log_target=True),
        build(record=GP_RECORD),
        build(record=dataclasses.replace(SVM_RECORD, notes=("x",))),
        build(space=ParameterSpace.from_dict({"a": (0, 2), "b": (1e-3, 10, "log")})),
        build(space=ParameterSpace.from_dict({"a": (0, 1), "b": (1e-3, 10)})),
        build(space=ParameterSpace.from_dict({"b": (0, 1), "a": (1e-3, 10, "log")})),
        build_chain(),
        build_combined(),
        build_campaigns(),
    ],
)
def test_any_difference_shows(other):
    assert other != build()
    assert other.fingerprint != build().fingerprint


def test_nothing_can_be_changed(cov):
    parts = (cov, cov.fixed, cov.fixed.decision, cov.fixed.decision.table, cov.kernel, cov.record, cov.space)
    for part in parts:
        for field in dataclasses.fields(part):
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(part, field.name, None)
    for name in ("alpha", "support", "weights", "sigma", "C", "epsilon", "bias", "loo_mse", "fingerprint"):
        with pytest.raises(AttributeError):
            setattr(cov, name, 1.0)
    for values in (cov.alpha, cov.support):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0
    before = cov.weights.copy()
    with contextlib.suppress(ValueError):
        cov.weights[0] = 5.0
    assert np.array_equal(cov.weights, before)


def test_arrays_given_to_a_covariance_can_change_without_changing_it():
    points, alpha = np.array([[0.1, 0.2], [0.3, 0.4]]), np.array([1.0, -1.0])
    table = WeightedPoints(points, alpha)
    points[0], alpha[0] = 9, 9
    assert table.points[0, 0] == 0.1
    assert table.alpha[0] == 1.0


@pytest.mark.parametrize(
    "copier",
    [copy.copy, copy.deepcopy, lambda cov: pickle.loads(pickle.dumps(cov))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_are_equal_and_as_frozen(copier, cov, table):
    before = cov.gram(table)
    other = copier(cov)
    assert other == cov
    assert hash(other) == hash(cov)
    assert other.fingerprint == cov.fingerprint
    assert np.array_equal(other.gram(table), before)
    for values in (other.alpha, other.support):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


def test_copies_of_campaigns_are_as_frozen():
    cov = build_campaigns()
    pooled = pickle.loads(pickle.dumps(cov)).fixed.campaigns
    assert pooled == cov.fixed.campaigns
    for values in (pooled.points, pooled.alpha, pooled.bias):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1.0


def test_pickle_stays_small(cov, table):
    cov.gram(table)
    assert len(pickle.dumps(cov)) < 3 * (cov.support.nbytes + cov.alpha.nbytes) + 10_000
