"""Pre-trained covariances kept with an Ax experiment, once each; everything else names them by fingerprint."""

from collections.abc import Callable
from typing import Any

import numpy as np
from ax.core.experiment import Experiment
from ax.utils.common.serialization import SerializationMixin

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import ArtefactError

PROPERTY = "mkbo_pretrained"
"""Key of the experiment's properties, which both of Ax's stores keep as plain JSON."""

MODEL_NODE = "Pretrained"
"""Name of the node that models, which follows those of first trials."""

_known: dict[str, Covariance] = {}


def remember(cov: Covariance) -> str:
    """Make a covariance known to models built in this process, and return its fingerprint."""
    _known[cov.fingerprint] = cov
    return cov.fingerprint


def attach(experiment: Experiment, cov: Covariance) -> str:
    """Write a covariance into an experiment's properties, and return its fingerprint."""
    held = experiment._properties.get(PROPERTY)
    stored = held if isinstance(held, dict) else {}
    experiment._properties[PROPERTY] = stored | {cov.fingerprint: cov.to_bytes().decode("ascii")}
    return remember(cov)


def recall(fingerprint: str, experiment: Experiment | None = None) -> Covariance:
    """Return the covariance of a fingerprint, from this process or else from the experiment.

    Raises
    ------
    ArtefactError
        If neither has it, or what the experiment carries is damaged or another covariance.
    """
    if fingerprint in _known:
        return _known[fingerprint]
    held = None if experiment is None else experiment._properties.get(PROPERTY)
    text = held.get(fingerprint) if isinstance(held, dict) else None
    remedy = "read its file with PretrainedCovariance.load and call use_pretrained with it again"
    if not isinstance(text, str):
        raise ArtefactError(
            f"the pre-trained covariance {fingerprint[:12]}... of this experiment is not stored with it; {remedy}"
        )
    try:
        cov = Covariance.from_bytes(text.encode(errors="replace"))
    except ArtefactError as error:
        raise ArtefactError(
            f"the pre-trained covariance {fingerprint[:12]}... stored with this experiment cannot be used: {error}; "
            f"{remedy}"
        ) from error
    if cov.fingerprint != fingerprint:
        raise ArtefactError(
            f"this experiment was made with the pre-trained covariance {fingerprint[:12]}..., but the one stored with "
            f"it is {cov.fingerprint[:12]}...; {remedy}"
        )
    remember(cov)
    return cov


class StoredByOptions(SerializationMixin):
    """A node that Ax stores by the options of its constructor, the fields annotated in its class.

    An altered file is loaded nevertheless, so that its trials can be reached; a suggestion says what is wrong.
    """

    @classmethod
    def deserialize_init_args(cls, args: dict[str, Any], *registries: Any, **named: Any) -> dict[str, Any]:
        """Return the options as they are stored, None for one that is missing, which Ax would not load."""
        return {name: args.get(name) for name in cls.__annotations__}

    def check_options(self) -> None:
        """Check what was stored.

        Raises
        ------
        ArtefactError
            If an option is not as `use_pretrained` writes it.
        """
        options = {name: getattr(self, name) for name in type(self).__annotations__}
        for name, value in options.items():
            holds, expected = _OPTIONS[name]
            if not holds(value):
                raise altered(f"{name!r} is {'missing' if value is None else repr(value)[:80]}, not {expected}")
        metrics, directions = set(options.get("covariances", ())), set(options.get("directions", ()))
        if not directions <= metrics:
            raise altered(f"'directions' names {sorted(directions - metrics)}, its covariances {sorted(metrics)}")


def altered(found: str) -> ArtefactError:
    """Return the error of an experiment whose stored options are not as `use_pretrained` writes them."""
    remedy = "restore its file, or call use_pretrained again, which keeps trials and data"
    return ArtefactError(f"the stored options of this experiment are altered: {found}; {remedy}")


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number of at least 0."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= 0)


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)


_OPTIONS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "covariances": (lambda value: _is_texts(value) and bool(value), "fingerprints by name of a metric"),
    "form": (lambda value: isinstance(value, str), "the name of a form"),
    "rename": (_is_texts, "pairs of names"),
    "fixed": (lambda value: isinstance(value, dict), "values by name"),
    "select": (lambda value: isinstance(value, bool), "true or false"),
    "seed": (is_whole, "a whole number of at least 0"),
    "directions": (lambda value: isinstance(value, dict), "directions by name of a metric"),
    "trials": (is_whole, "a whole number of at least 0"),
    "next_node": (lambda value: value == MODEL_NODE, repr(MODEL_NODE)),
}
