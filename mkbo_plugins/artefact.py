"""The saved form of a pre-trained covariance: canonical JSON with a schema version and a checksum.

A file holds exactly the bytes that `save` would write for its content: keys sorted, no optional white space, floats in
their shortest form that reads back to the same value. Loading compares bytes, so any change is noticed, and builds
plain values only, so it never runs code.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mkbo_plugins.combined import CombinedCovariance
from mkbo_plugins.core import Exponential, FreeKernel, Linear, Polynomial, SquaredExponential, TaylorSeries
from mkbo_plugins.core.covariance import FixedCovariance
from mkbo_plugins.core.decision import DecisionFunction
from mkbo_plugins.core.mixture import KernelMixture
from mkbo_plugins.core.reweighting import WeightedPoints
from mkbo_plugins.covariance import Covariance
from mkbo_plugins.errors import ArtefactError, MkboError
from mkbo_plugins.files import write_atomically
from mkbo_plugins.mixture import MixtureCovariance
from mkbo_plugins.parameters import FRAMES, is_finite_number
from mkbo_plugins.pretrained import PretrainedCovariance, TrainingRecord
from mkbo_plugins.space import ParameterSpace

FORMAT = "mkbo-pretrained-covariance"
SCHEMA_VERSION = 1

_KERNELS: dict[str, type[FreeKernel]] = {
    "exponential": Exponential,
    "linear": Linear,
    "polynomial": Polynomial,
    "se": SquaredExponential,
    "taylor": TaylorSeries,
}


class _NewerVersionError(ArtefactError):
    pass


def save(cov: Covariance, path: Path) -> Path:
    """Write a covariance to `path`, replacing an existing file as a whole or not at all."""
    data = to_bytes(cov)
    try:
        write_atomically(path, data)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArtefactError(f"cannot write {path}: {reason}; name a file in an existing folder") from error
    return path


def to_bytes(cov: Covariance) -> bytes:
    """Return the bytes of a saved covariance after checking that they read back to it."""
    try:
        data = _file_bytes(_content(cov))
        faithful = from_bytes(data) == cov
    except ArtefactError as error:
        raise ArtefactError(f"this covariance cannot be saved: {error}") from error
    except (TypeError, ValueError) as error:
        raise ArtefactError(f"this covariance cannot be saved: {error}; train it again with plain numbers") from error
    if not faithful:
        raise ArtefactError("this covariance cannot be saved: it does not read back the same; train it with pretrain")
    return data


def load(path: Path) -> Covariance:
    """Read a covariance from `path`; raises `ArtefactError` unless the file is exactly as `save` wrote it."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ArtefactError(f"{path} does not exist; check the path, or save a covariance there first") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ArtefactError(f"cannot read {path}: {reason}; check the path") from error
    try:
        return from_bytes(data)
    except _NewerVersionError as error:
        raise ArtefactError(f"{path}: {error}; upgrade mkbo_plugins") from error
    except ArtefactError as error:
        raise ArtefactError(f"{path}: {error}; take a fresh copy, or save the covariance again") from error


def content_fingerprint(cov: Covariance) -> str:
    """Return the SHA-256 of the canonical content, as hexadecimal digits."""
    return _digest(_content(cov))


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(_canonical(content)).hexdigest()


def _file_bytes(content: dict[str, Any]) -> bytes:
    document = {
        "checksum": _digest(content),
        "content": content,
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
    }
    return _canonical(document) + b"\n"


def from_bytes(data: bytes) -> Covariance:
    """Return the covariance saved as `data`; raises `ArtefactError` unless it is exactly as `to_bytes` gives it."""
    try:
        document = json.loads(data.decode("ascii"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ArtefactError("not a saved covariance, or one cut short or damaged (no complete JSON text)") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ArtefactError(f"not a saved covariance: its 'format' is not {FORMAT!r}")
    version = document.get("schema_version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise ArtefactError(f"'schema_version' must be a whole number, got {version!r}; the file was altered")
    if version > SCHEMA_VERSION:
        raise _NewerVersionError(
            f"written in schema version {version}, newer than {SCHEMA_VERSION}, which this program reads"
        )
    content = document.get("content")
    try:
        intact = isinstance(content, dict) and _file_bytes(content) == data
    except (ValueError, RecursionError):
        intact = False
    if not intact:
        raise ArtefactError("altered since it was saved (checksum or layout differ)")
    try:
        cov = _decode(_Reader(content, ""))
    except ArtefactError:
        raise
    except MkboError as error:
        raise ArtefactError(f"its content has no meaning: {error}") from error
    if _file_bytes(_content(cov)) != data:
        raise ArtefactError("its content is not as this version writes it")
    return cov


def _content(cov: Covariance) -> dict[str, Any]:
    if isinstance(cov, PretrainedCovariance):
        return _content_of_one(cov)
    if isinstance(cov, MixtureCovariance):
        return cov.to_content() | {"space": _encode_space(cov.space)}
    return {"members": [_content_of_one(member) for member in cov.members]}


def _content_of_one(cov: PretrainedCovariance) -> dict[str, Any]:
    fixed = cov.fixed
    # Files of a single table know nothing of further ones.
    earlier = [
        {"alpha": table.alpha.tolist(), "record": _encode_record(record), "support": table.points.tolist()}
        for table, record in zip(fixed.earlier, cov.earlier, strict=True)
    ]
    return ({"earlier": earlier} if earlier else {}) | {
        "alpha": cov.alpha.tolist(),
        "bias": cov.bias,
        "decision_mean": fixed.decision_mean,
        "decision_spread": fixed.decision_spread,
        "frame": cov.frame,
        "kernel": _encode_kernel(cov.kernel),
        "log_target": cov.log_target,
        "mean_diagonal": fixed.mean_diagonal,
        "record": _encode_record(cov.record),
        "space": _encode_space(cov.space),
        "support": cov.support.tolist(),
    }


def _encode_space(space: ParameterSpace) -> list[list[Any]]:
    # A list, because the order of the parameters is part of the space.
    return [[name, spec] for name, spec in space.to_dict().items()]


def _encode_record(record: TrainingRecord) -> dict[str, Any]:
    encoded = asdict(record) | {"notes": list(record.notes)}
    # Only files of classifiers have classes.
    classes = encoded.pop("classes")
    return encoded if classes is None else encoded | {"classes": list(classes)}


def _encode_kernel(kernel: FreeKernel) -> dict[str, Any]:
    kind = next((name for name, cls in _KERNELS.items() if type(kernel) is cls), None)
    if kind is None:
        raise ArtefactError(f"kernels of type {type(kernel).__name__} have no saved form; use one of {list(_KERNELS)}")
    encoded: dict[str, Any] = {"kind": kind, "weights": None if kernel.weights is None else list(kernel.weights)}
    for name in ("sigma", "degree"):
        if hasattr(kernel, name):
            encoded[name] = getattr(kernel, name)
    if isinstance(kernel, TaylorSeries):
        encoded["coefficients"] = list(kernel.coefficients)
    return encoded


class _Reader:
    """Typed access to a mapping read from a file."""

    def __init__(self, values: Any, path: str) -> None:
        if not isinstance(values, dict):
            raise ArtefactError(f"{path or 'content'!r} must be a mapping, got {type(values).__name__}")
        self.values, self.path = values, path

    def _get(self, key: str) -> Any:
        if key not in self.values:
            raise ArtefactError(f"{self.path}{key!r} is missing")
        return self.values[key]

    def _fault(self, key: str, expected: str) -> ArtefactError:
        return ArtefactError(f"{self.path}{key!r} must be {expected}, got {self.values[key]!r:.60}")

    def number(self, key: str) -> float:
        value = self._get(key)
        if not is_finite_number(value):
            raise self._fault(key, "a finite number")
        return float(value)

    def optional_number(self, key: str) -> float | None:
        return None if self._get(key) is None else self.number(key)

    def whole(self, key: str) -> int:
        value = self._get(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fault(key, "a whole number")
        return value

    def flag(self, key: str) -> bool:
        value = self._get(key)
        if not isinstance(value, bool):
            raise self._fault(key, "true or false")
        return value

    def text(self, key: str, allowed: tuple[str, ...] | None = None) -> str:
        value = self._get(key)
        if not isinstance(value, str) or (allowed is not None and value not in allowed):
            raise self._fault(key, "text" if allowed is None else f"one of {list(allowed)}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._fault(key, "a list of texts")
        return tuple(value)

    def numbers(self, key: str) -> list[float]:
        value = self._get(key)
        if not isinstance(value, list) or not all(is_finite_number(item) for item in value):
            raise self._fault(key, "a list of finite numbers")
        return [float(item) for item in value]

    def matrix(self, key: str) -> np.ndarray:
        rows = self._get(key)
        regular = isinstance(rows, list) and rows and all(isinstance(r, list) and len(r) == len(rows[0]) for r in rows)
        if not regular or not all(is_finite_number(item) for row in rows for item in row):
            raise self._fault(key, "a list of equally long rows of finite numbers")
        return np.array(rows, dtype=float)

    def below(self, key: str) -> "_Reader":
        return _Reader(self._get(key), f"{self.path}{key}.")

    def each_below(self, key: str) -> "list[_Reader]":
        entries = self._get(key)
        if not isinstance(entries, list):
            raise self._fault(key, "a list")
        return [_Reader(entry, f"{self.path}{key}[{i}].") for i, entry in enumerate(entries)]


def _decode(content: _Reader) -> Covariance:
    if "members" in content.values:
        return CombinedCovariance(tuple(map(_decode_one, content.each_below("members"))))
    return _decode_mixture(content) if "mixture" in content.values else _decode_one(content)


def _decode_mixture(content: _Reader) -> MixtureCovariance:
    space, mixture = _decode_space(content.values.get("space")), content.below("mixture")
    return MixtureCovariance(
        space,
        content.text("frame", FRAMES),  # type: ignore[arg-type]
        KernelMixture(
            mixture.numbers("variances"),  # type: ignore[arg-type]
            mixture.numbers("scales"),  # type: ignore[arg-type]
            mixture.number("noise"),
            len(space.coordinate_names),
        ),
        content.text("target"),
        content.number("loo_mse"),
    )


def _decode_one(content: _Reader) -> PretrainedCovariance:
    decision = DecisionFunction(
        _decode_kernel(content.below("kernel")), _decode_points(content), content.number("bias")
    )
    for key in ("mean_diagonal", "decision_spread"):
        if content.number(key) <= 0:
            raise ArtefactError(f"{content.path}{key!r} must be above 0, got {content.number(key)!r}")
    earlier = content.each_below("earlier") if "earlier" in content.values else []
    return PretrainedCovariance(
        space=_decode_space(content.values.get("space")),
        frame=content.text("frame", FRAMES),  # type: ignore[arg-type]
        fixed=FixedCovariance(
            decision,
            mean_diagonal=content.number("mean_diagonal"),
            decision_mean=content.number("decision_mean"),
            decision_spread=content.number("decision_spread"),
            earlier=tuple(map(_decode_points, earlier)),
        ),
        record=_decode_record(content.below("record")),
        log_target=content.flag("log_target"),
        earlier=tuple(_decode_record(table.below("record")) for table in earlier),
    )


def _decode_points(content: _Reader) -> WeightedPoints:
    return WeightedPoints(content.matrix("support"), np.array(content.numbers("alpha")))


def _decode_record(record: _Reader) -> TrainingRecord:
    return TrainingRecord(
        target=record.text("target"),
        rows=record.whole("rows"),
        target_mean=record.number("target_mean"),
        target_spread=record.number("target_spread"),
        task=record.text("task", ("regression", "classification")),
        trainer=record.text("trainer", ("svm", "gp")),
        C=record.optional_number("C"),
        epsilon=record.optional_number("epsilon"),
        loo_mse=record.number("loo_mse"),
        notes=record.texts("notes"),
        classes=_decode_classes(record) if "classes" in record.values else None,
    )


def _decode_classes(record: _Reader) -> tuple[str, str]:
    classes = record.texts("classes")
    if len(classes) != 2:
        raise ArtefactError(f"{record.path}'classes' must be two names, got {list(classes)}")
    return classes


def _decode_kernel(encoded: _Reader) -> FreeKernel:
    kind = encoded.text("kind", tuple(_KERNELS))
    settings: dict[str, Any] = {}
    if encoded.values.get("weights") is not None:
        settings["weights"] = tuple(encoded.numbers("weights"))
    if kind in ("exponential", "se"):
        settings["sigma"] = encoded.number("sigma")
    elif kind == "polynomial":
        settings["degree"] = encoded.whole("degree")
    elif kind == "taylor":
        settings["coefficients"] = tuple(encoded.numbers("coefficients"))
    return _KERNELS[kind](**settings)


def _decode_space(entries: Any) -> ParameterSpace:
    pairs = isinstance(entries, list) and all(
        isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], str) for entry in entries
    )
    if not pairs:
        raise ArtefactError("'space' must be a list of names with their descriptions")
    if len({name for name, _ in entries}) < len(entries):
        raise ArtefactError("'space' names a parameter twice")
    return ParameterSpace.from_dict(dict(entries))
