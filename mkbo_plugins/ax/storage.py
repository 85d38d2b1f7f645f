"""Pre-trained covariances kept with an Ax experiment, once each; everything else names them by fingerprint."""

from ax.core.experiment import Experiment

from mkbo_plugins.covariance.base import Covariance
from mkbo_plugins.errors import ArtefactError

PROPERTY = "mkbo_pretrained"
"""Key of the experiment's properties, which both of Ax's stores keep as plain JSON."""

_known: dict[str, Covariance] = {}


def remember(cov: Covariance) -> str:
    """Make a covariance known to models built in this process, and return its fingerprint."""
    _known[cov.fingerprint] = cov
    return cov.fingerprint


def attach(experiment: Experiment, cov: Covariance) -> str:
    """Write a covariance into an experiment's properties, and return its fingerprint."""
    stored = experiment._properties.setdefault(PROPERTY, {})
    stored.setdefault(cov.fingerprint, cov.to_bytes().decode("ascii"))
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
    stored = {} if experiment is None else experiment._properties.get(PROPERTY, {})
    remedy = "read its file with PretrainedCovariance.load and call use_pretrained with it again"
    if fingerprint not in stored:
        raise ArtefactError(
            f"the pre-trained covariance {fingerprint[:12]}... of this experiment is not stored with it; {remedy}"
        )
    try:
        cov = Covariance.from_bytes(stored[fingerprint].encode())
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
