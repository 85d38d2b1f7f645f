"""Damaged and forged files, drawn at random: `tests/test_fuzzing.py` tries a few of them, ``tools/fuzz.py`` many."""

import copy
import io
import json
import random
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mkbo_plugins import ParameterSpace, add_campaign, drop_campaign, pretrain
from mkbo_plugins.core.training.svr import LeaveOneOut
from mkbo_plugins.covariance.base import GRAM_FORMS, Covariance
from mkbo_plugins.covariance.container import digest
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboError
from mkbo_plugins.pretraining.checkpoint import Checkpoint
from mkbo_plugins.pretraining.left_out_campaigns import leave_one_campaign_out
from mkbo_plugins.tables.inputfiles import read_table_file
from mkbo_plugins.tables.workbooks import workbook_bytes

NUMBERS = [0, 1, -1, 2, 0.5, -0.5, 1e-30, 1e-9, 1e9, 1e30, 1e-120, 1e120, 1e-300, 1e160, 1e300, 5e-324, 1.7e308]
WHOLES = [0, 1, 2, 3, 20, 100, 101, 10**6, 10**9, -1, 10**30]
OTHERS = [None, True, "", "text", "nan", "\x1b[31m", [], {}, [[]], {"levels": ["a", "b"]}, [1.0, 2.0]]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with one to four small changes: flipped, replaced, dropped, doubled, or cut."""
    for _ in range(rng.randint(1, 4)):
        at, length = rng.randrange(len(data)), rng.randrange(1, 30)
        data = rng.choice(
            [
                data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :],
                data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :],
                data[:at] + rng.choice(b'0123456789.-eE[]{},:"').to_bytes() + data[at + 1 :],
                data[:at] + data[at + length :],
                data[:at] + data[at : at + length] + data[at:],
                data[: max(at, 1)],
            ]
        )
        if not data:
            break
    return data


def forged(content: Any, rng: random.Random) -> Any:
    """Return values as JSON holds them with one to three of them replaced, repeated or removed."""
    content = copy.deepcopy(content)
    for _ in range(rng.randint(1, 3)):
        places = list(_places(content))
        if not places:
            break
        holder, key = rng.choice(places)
        old = holder[key]
        if isinstance(old, float) and rng.random() < 0.8:
            holder[key] = rng.choice([*map(float, NUMBERS), old * 10.0 ** rng.randint(-40, 40)])
        elif isinstance(old, int) and not isinstance(old, bool) and rng.random() < 0.8:
            holder[key] = rng.choice(WHOLES)
        elif isinstance(old, list) and old and rng.random() < 0.6:
            holder[key] = rng.choice([old * rng.choice([2, 30]), old[1:], old[::-1], [old[0]] * len(old)])
        elif isinstance(holder, dict) and rng.random() < 0.3:
            del holder[key]
        else:
            holder[key] = copy.deepcopy(rng.choice([*NUMBERS, *OTHERS]))
    return content


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def outcome(action: Callable[[], Any]) -> Any:
    """Return what an action gives, or None if it is refused in this package's words; raises anything else."""
    try:
        return action()
    except MkboError as error:
        if not 10 < len(str(error)) < 5000:
            raise AssertionError(f"no sentence: {error!s:.200}") from error
        return None


def use(cov: Covariance) -> None:
    """Ask a loaded covariance for all it gives; raises unless values are finite, symmetric, or refused in words."""
    X = cov.space.sobol(4, seed=0)
    forms = GRAM_FORMS if isinstance(cov, PretrainedCovariance) else ("base",)
    for form in forms:
        gram = outcome(lambda form=form: cov.gram(X, form=form))
        if gram is not None:
            assert np.isfinite(gram).all(), form
            np.testing.assert_allclose(gram, gram.T, rtol=1e-9, atol=1e-9 * np.abs(gram).max())
    if isinstance(cov, PretrainedCovariance):
        predicted = outcome(lambda: cov.predict(X))
        assert predicted is None or np.isfinite(predicted).all()
        if cov.campaigns:
            assert len(outcome(lambda: cov.starting_points(2, "same")) or "of") == 2
            found = outcome(lambda: cov.most_like(X, range(4)))
            assert found is None or all(-1 <= value <= 1 for _, value in found)


def try_artefact(data: bytes) -> str:
    """Load bytes as a saved covariance and use it; returns how it went."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            cov = outcome(lambda: Covariance.from_bytes(data))
            if cov is None:
                return "refused"
            use(cov)
    return "right"


def resealed(data: bytes, rng: random.Random) -> bytes:
    """Return a saved covariance with forged content and the checksum that goes with it."""
    document = json.loads(data)
    while True:
        content = forged(document["content"], rng)
        try:
            document |= {"content": content, "checksum": digest(content)}
            return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        except ValueError:
            continue  # an infinite number has no saved form


def write_checkpoint(path: Path) -> None:
    """Write a checkpoint of five rows and two coordinates under the key ``"key"``."""
    kept = Checkpoint(path, "key", (5, 2))
    kept.keep_evidence(np.array([1.0, 0.25]), True)
    cells = {(C, 0.1, 2.0): LeaveOneOut(0.5 * C, np.linspace(-C, C, 5), True) for C in (0.5, 1.0)}
    kept.keep_outcomes(cells | {(2.0, 0.1, 2.0): LeaveOneOut(np.inf, np.zeros(5), False)})


def try_checkpoint(path: Path, rng: random.Random) -> str:
    """Damage or forge a checkpoint and read it; returns how it went."""
    path.unlink(missing_ok=True)
    write_checkpoint(path)
    data = path.read_bytes()
    if rng.random() < 0.5:
        path.write_bytes(mutated(data, rng))
    else:
        content = json.loads(data)
        del content["checksum"]
        content = forged(content, rng)
        try:
            path.write_text(json.dumps(content | {"checksum": digest(content)}))
        except ValueError:
            path.write_bytes(mutated(data, rng))
    before = path.read_bytes()
    found = outcome(lambda: Checkpoint(path, "key", (5, 2)))
    if found is None:
        assert path.read_bytes() == before, "a refused file was changed"
        return "refused"
    assert all(np.isfinite(loo.residuals).all() and not loo.error < 0 for loo in found.outcomes.values())
    return "right"


def damaged_workbook(data: bytes, rng: random.Random) -> bytes:
    """Return a workbook with changed bytes, or with the text of one of its parts changed."""
    if rng.random() < 0.3:
        return mutated(data, rng)
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    name = rng.choice(list(parts))
    text = parts[name]
    numbers = list(re.finditer(rb"[0-9]+", text))
    if numbers and rng.random() < 0.6:
        at = rng.choice(numbers)
        number = rng.choice([b"0", b"-1", b"1e308", b"nan", b"1048577", b"99999999999", b"XFE9", b"<v/>", b""])
        parts[name] = text[: at.start()] + number + text[at.end() :]
    elif rng.random() < 0.2:
        del parts[name]
    else:
        parts[name] = mutated(text, rng) if text else b"<"
    changed = io.BytesIO()
    with zipfile.ZipFile(changed, "w", zipfile.ZIP_DEFLATED) as book:
        for part, content in parts.items():
            book.writestr(part, content)
    return changed.getvalue()


def try_workbook(path: Path, rng: random.Random) -> str:
    """Damage a workbook and read it; returns how it went."""
    rows = {"a": [1.5, 2.0, 3.25, 4.0], "b": ["x", "y", "x", "="], "y": [1e-3, 2, 3, 4e9]}
    path.write_bytes(damaged_workbook(workbook_bytes(pd.DataFrame(rows)), rng))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = outcome(lambda: read_table_file(path))
    return "refused" if found is None else "right"


VALUES = [
    *NUMBERS, *WHOLES, *OTHERS, float("nan"), float("inf"), b"bytes", "y", "same", ("y",), {"a"}, object(), print,
    np.nan, np.zeros(0), np.zeros((3, 2)), np.full((2, 2), np.nan), np.array(["a", "b"]), np.array(1.0), np.int64(2),
    pd.DataFrame(), pd.DataFrame({"a": [1, 2]}), pd.Series([1.0, 2.0]), [None], [float("inf")], {"a": 1}, {"a": None},
    {"a": (0, 1)}, {1: 2}, [["a"]], [{"a": 1}], [[0.5, 0.5]], [[1e300, 0.5]], [0.5, 0.5], range(3), 1j, Path("nowhere"),
]  # fmt: skip


def public_calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return public functions with arguments that are right, all by name, each fast."""
    space = ParameterSpace.from_dict({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    X = space.sobol(10)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=X[:, 0] + X[:, 1] ** 2)
    table = table.assign(g=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4], s=0.1)
    fixed = {"C": 5.0, "sigma": 2.0, "epsilon": 0.1, "ard": False, "progress": False}
    cov = pretrain(table[["a", "b", "y"]], "y", space, **fixed)
    trained = {"table": table, "target": "y", "space": space, "kernel": "se", "frame": "centred", "task": "regression"}
    trained |= {
        "trainer": "svm",
        "combine": "sum",
        "by": None,
        "groups": "g",
        "noise": None,
        "sample_weight": None,
    } | fixed
    trained |= {"missing": "error", "log_target": False, "max_rows": 500, "n_jobs": 1, "resume": None, "by": None}
    runs = trained | {"table": table.assign(run=[0, 1] * 5), "by": "run", "groups": None}
    of_runs = pretrain(**runs)
    of_three = add_campaign(of_runs, table, "new", progress=False)
    return {
        "pretrain": (pretrain, trained),
        "pretrain on campaigns": (pretrain, runs),
        "add_campaign": (
            add_campaign,
            {"cov": of_runs, "table": table, "name": "new", "target": "y", "date": "2026-11-03", "progress": False}
            | {"groups": None, "sample_weight": None, "noise": None, "missing": "error", "n_jobs": 1},
        ),
        "drop_campaign": (drop_campaign, {"cov": of_three, "name": "0", "n_jobs": 1, "progress": False}),
        "leave_one_campaign_out": (
            leave_one_campaign_out,
            {"table": runs["table"], "target": "y", "space": space, "by": "run", "minimise": False, "narrow": True}
            | {"trials": 6, "form": "stock", "n_jobs": 1, "progress": False, "trainer": "gp"},
        ),
        "most_like": (of_runs.most_like, {"X": X, "y": X[:, 0]}),
        "gram": (cov.gram, {"X": X, "X2": X, "form": "base", "s": 1.0}),
        "gram_error": (cov.gram_error, {"X": X, "X2": X}),
        "predict": (cov.predict, {"X": X}),
        "starting_points": (cov.starting_points, {"n": 2, "direction": "same", "seed": 0}),
        "with_levels": (cov.with_levels, {"levels": {}}),
        "with_evaluator": (cov.with_evaluator, {"choice": "auto", "tolerance": 1e-10}),
        "from_dict": (ParameterSpace.from_dict, {"spec": {"a": (0, 1)}}),
        "sobol": (space.sobol, {"n": 4, "seed": 0}),
        "from_raw": (space.from_raw, {"X": X}),
        "to_raw": (space.to_raw, {"points": table}),
    }


def try_arguments(calls: dict[str, tuple[Callable[..., Any], dict[str, Any]]], rng: random.Random) -> str:
    """Call a public function with one or two arguments replaced; returns how it went."""
    name = rng.choice(list(calls))
    function, right = calls[name]
    changed = {key: rng.choice(VALUES) for key in rng.sample(list(right), min(len(right), rng.randint(1, 2)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with np.errstate(all="ignore"):
                result = outcome(lambda: function(**right | changed))
        except Exception as error:
            error.add_note(f"{name}({changed!r:.300})")
            raise
    return "refused" if result is None else "right"


def host_calls() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Return what hosts are given models by, with arguments that are right, all by name."""
    import torch
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from optuna.distributions import FloatDistribution
    from skopt.space import Real

    from mkbo_plugins.ax import use_pretrained
    from mkbo_plugins.botorch import pretrained_gp
    from mkbo_plugins.botorch.suggest import suggest
    from mkbo_plugins.optuna import PretrainedSampler
    from mkbo_plugins.skopt import pretrained_regressor
    from mkbo_plugins.trials import Trials

    space = ParameterSpace.from_dict({"a": (0.0, 1.0), "b": (0.0, 1.0)})
    X = space.sobol(6)
    y = X[:, 0] + X[:, 1] ** 2
    table = pd.DataFrame(X, columns=["a", "b"]).assign(y=y)
    cov = pretrain(table, "y", space, C=5.0, sigma=2.0, epsilon=0.1, ard=False, progress=False)
    client = Client()
    client.configure_experiment([RangeParameterConfig(name, (0.0, 1.0), "float") for name in "ab"])
    client.configure_optimization("y")
    shared = {"cov": cov, "form": "transfer", "fixed": None, "direction": "unknown"}
    raw, outcomes = torch.tensor(X), torch.tensor(y)[:, None]
    model = {"train_X": raw, "train_Y": outcomes, "names": None, "train_Yvar": torch.full_like(outcomes, 0.1)}
    advice = {"trials": Trials(X, y, X[:0]), "n": 1, "candidates": X, "minimise": False, "noise": None, "required": ()}
    advice |= {"initial": 3, "judged": True}
    experiment = {"client": client, "initial_trials": 2, "rename": None, "select": False, "seed": 0}
    regressor = {"dimensions": [Real(0.0, 1.0, name=name) for name in "ab"], "names": None, "noise": "gaussian"}
    regressor |= {"inputs": "auto", "n_restarts_optimizer": 0, "random_state": 0}
    sampler = {"distributions": {name: FloatDistribution(0.0, 1.0) for name in "ab"}, "initial_trials": 3, "seed": 0}
    sampler |= {"independent_sampler": None, "constraints_func": None}
    return {
        "pretrained_gp": (pretrained_gp, shared | model | {"space": space}),
        "suggest": (suggest, shared | advice | {"space": space, "seed": 0}),
        "use_pretrained": (use_pretrained, shared | experiment),
        "PretrainedSampler": (PretrainedSampler, shared | sampler),
        "pretrained_regressor": (pretrained_regressor, shared | regressor),
    }


COMMANDS = (
    "check known.csv --target y",
    "pretrain known.csv --target y --trainer gp --out made.mkbo.json",
    "pretrain runs.csv --target y --by run --dates day --trainer gp --jobs 1 --out pooled.mkbo.json",
    "add runs.mkbo.json known.csv --name new --date 2026-11-03 --jobs 1 --out grown.mkbo.json",
    "drop runs.mkbo.json --name 1 --jobs 1 --out fewer.mkbo.json",
    "show cov.mkbo.json",
    "report cov.mkbo.json --out cov.html --done done.csv --direction same --form transfer",
    "suggest --covariance cov.mkbo.json --done done.csv --direction same --form transfer",
    "demo --out known.csv/demo --seeds 1 --trials 1",
    "benchmark --out known.csv/bench --problem branin --model stock --seeds 1 --trials 1 --jobs 1",
)
"""Commands that are right, but for two whose folders cannot be made; these would take long."""

WORDS = [
    "", " ", "-", "--", "=", "y", "a", "b", "c", "a,b", "a=0.5", "a=", "a=x", "c=u", "c=u,w", "a=0:1", "a=0..1", "nan",
    "inf", "1e309", "-1", "0", "1", "2", "0.5", "1e-300", "same", "transfer", "stock", "svm", "gp", "se", "sum", "unit",
    "classification", "[/x]", "\x1b[31m", "é", "x" * 5000, ".", "nowhere", "nowhere/x.csv", "known.csv", "done.csv",
    "cov.mkbo.json", "empty.csv", "book.xlsx", "book.xlsx::none", "/dev/null", "y.toml", "y.png", "y.csv",
    "y.xlsx", "runs.csv", "runs.mkbo.json", "run", "day", "2026-11-03/2026-11-05", "maximise", "a + b <= 1",
    "a <= 0.5", "c = u", "a >= b",
]  # fmt: skip


def write_inputs(folder: Path) -> None:
    """Write the files that `COMMANDS` read."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((12, 2)), columns=["a", "b"]).assign(c=["u", "v"] * 6)
    table = table.assign(y=table["a"] + table["b"] ** 2)
    table.to_csv(folder / "known.csv", index=False)
    table[:4].to_csv(folder / "done.csv", index=False)
    (folder / "empty.csv").write_text("")
    (folder / "book.xlsx").write_bytes(workbook_bytes(table))
    space = ParameterSpace.from_table(table, "y")
    settings = {"C": 5.0, "sigma": 2.0, "epsilon": 0.1, "ard": False, "progress": False}
    pretrain(table, "y", space, **settings).save(folder / "cov.mkbo.json")
    runs = pd.concat([table.assign(run=run, day="2026-11-03", y=table["y"] + run * table["b"]) for run in range(3)])
    runs.to_csv(folder / "runs.csv", index=False)
    pretrain(runs, "y", space, by="run", **settings).save(folder / "runs.mkbo.json")


def try_command(rng: random.Random) -> str:
    """Run a command of `COMMANDS` in the current folder with some words replaced or added; returns how it went."""
    import typer
    from typer.testing import CliRunner

    from mkbo_plugins.cli import app

    name, *words = rng.choice(COMMANDS).split()
    parameters = typer.main.get_command(app).commands[name].params
    known = [option for parameter in parameters for option in parameter.opts if option.startswith("--")]
    for _ in range(rng.choice([1, 1, 2, 3])):
        if rng.random() < 0.3:
            words[rng.randrange(len(words))] = rng.choice(WORDS)
        else:
            words += [rng.choice(known), *rng.sample(WORDS, rng.random() < 0.8)]
    result = CliRunner().invoke(app, [name, *words])
    raw = result.exception is not None and not isinstance(result.exception, SystemExit)
    if raw or result.exit_code not in (0, 1, 2) or (result.exit_code == 1 and name != "check"):
        raise AssertionError(f"{name} {words!r:.300}: {result.exit_code}, {result.output[-300:]}") from result.exception
    if result.exit_code and not result.output.strip():
        raise AssertionError(f"{name} {words!r:.300}: ends with {result.exit_code} and says nothing")
    return "refused" if result.exit_code == 2 else "right"
