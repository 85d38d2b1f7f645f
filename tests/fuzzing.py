"""Damaged and forged files, drawn at random: `tests/test_fuzzing.py` tries a few of them, ``tools/fuzz.py`` many."""

import copy
import json
import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mkbo_plugins.core.training.svr import LeaveOneOut
from mkbo_plugins.covariance.base import GRAM_FORMS, Covariance
from mkbo_plugins.covariance.container import digest
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.errors import MkboError
from mkbo_plugins.pretraining.checkpoint import Checkpoint

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
