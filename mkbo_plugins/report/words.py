"""What a pre-trained covariance has learned, in words."""

import numpy as np

from mkbo_plugins.covariance.campaigns import CampaignRecord
from mkbo_plugins.covariance.pretrained import PretrainedCovariance
from mkbo_plugins.report.sensitivity import Sensitivity, prediction_sensitivity, prior_shares
from mkbo_plugins.space.described import Described
from mkbo_plugins.space.parameters import Categorical, Numeric

SHOWN_SHARES = 8


def describe(cov: PretrainedCovariance) -> list[tuple[str, str]]:
    """Return labelled statements about the table, the fit and the frame."""
    record = cov.record
    quality = record.explained
    verdict = "good" if quality > 0.7 else "fair" if quality > 0.4 else "weak: little can be transferred"
    labels = record.task == "classification"
    kind = "classification" if labels else "regression"
    trainer = {
        "svm": f"support vector {kind}, {len(cov.alpha)} support vectors",
        "gp": f"Gaussian process of {len(cov.alpha)} rows",
    }[record.trainer]
    unit = " in units of the logarithm" if cov.log_target else ""
    unit = " in normal scores" if cov.ranked or cov.campaigns else unit
    scale = " (logarithm)" if cov.log_target else " (by rank)" if cov.ranked or cov.campaigns else ""
    rows = [("table", f"{record.rows} rows, target {record.target}{scale}")]
    if labels:
        right = 1 - record.loo_mse / 4
        rows.append(("fit", f"{right:.0%} of held-out labels are right, each class weighing the same ({verdict})"))
    else:
        rows += [
            ("fit", f"held-out predictions explain {quality:.0%} of the target's variance{scale} ({verdict})"),
            (
                "error",
                f"leave-one-out root mean squared error {np.sqrt(cov.loo_mse):.4g}{unit}, the target's standard "
                f"deviation being {record.target_spread:.4g}",
            ),
        ]
    rows += [("campaign", _campaign(c)) for c in cov.campaigns]
    rows += [
        ("earlier table", f"{e.rows} rows, target {e.target}, explained to {e.explained:.0%} with the same kernel")
        for e in cov.earlier
    ]
    rows.append(("machine", f"{trainer}, {type(cov.kernel).__name__} kernel"))
    if cov.epsilon is not None:
        rows.append(("C, epsilon", f"{cov.C:.4g}, {cov.epsilon:.4g}"))
    elif cov.C is not None:
        rows.append(("C", f"{cov.C:.4g}"))
    if cov.sigma is not None:
        rows.append(("sigma", f"{cov.sigma:.4g}, the squared length scale of the most sensitive coordinate"))
    rows.append(("evaluator", cov.evaluator.describe()))
    span = "[-1, 1]" if cov.frame == "centred" else "[0, 1]"
    rows.append(("frame", f"{cov.frame}: bounds are mapped to {span}, categories to 0/1"))
    rows.extend(("constraint", str(constraint)) for constraint in cov.space.constraints)
    rows.extend(("note", note) for note in record.notes)
    rows.append(("fingerprint", cov.fingerprint[:16]))
    return rows


def _campaign(record: CampaignRecord) -> str:
    when = "no date known" if record.date is None else record.date.replace("/", " to ")
    later = ", added without a part in coordinate weights and noise" if record.added else ""
    explained = f"held-out predictions explain {record.explained:.0%} of the variance"
    return f"{record.name}: {record.rows} rows, {explained}; {when}{later}"


def describe_prediction(cov: PretrainedCovariance) -> str:
    """Return what `PretrainedCovariance.predict` gives, for an axis."""
    target = cov.record.target
    if cov.record.task == "classification":
        return f"decision value for {target}"
    return f"{target}, predicted{', standard deviations by rank' if cov.campaigns else ''}"


def describe_parameters(cov: PretrainedCovariance) -> list[tuple[str, str, str, Sensitivity]]:
    """Return name, range and length scale of every parameter, and how much of the prediction varies with it.

    Length scales are shares of the parameter's range (in its logarithm on a log scale): the smaller, the faster the
    target varied with it.
    """
    lengths = np.sqrt((cov.sigma or 1.0) / cov.weights) / cov.space.coordinate_ranges(cov.frame)
    owners = np.array(cov.space.coordinate_owners)
    sensitivity = prediction_sensitivity(cov)
    rows = []
    for parameter in cov.space.parameters:
        if isinstance(parameter, Numeric):
            scale = f"{', log' if parameter.log else ''}{', whole' if parameter.integer else ''}"
            extent = f"{parameter.lower:g} to {parameter.upper:g}{scale}"
        else:
            extent = ", ".join(map(str, parameter.levels))  # type: ignore[attr-defined]
        own = lengths[owners == parameter.name]
        shortest = own.min()
        unit = "between levels" if isinstance(parameter, Categorical) else "x range"
        if isinstance(parameter, Described):
            extent += f"; by {', '.join(parameter.descriptor_names)}"
            unit = f"x range of {parameter.descriptor_names[int(own.argmin())]}"
        rows.append((parameter.name, extent, f"{shortest:.2g} {unit}", sensitivity[parameter.name]))
    return rows


def describe_interactions(cov: PretrainedCovariance) -> tuple[list[tuple[str, float]], float]:
    """Return the sets of parameters that carry the most prior variance, with their shares, and the share looked at.

    The list is empty where length scales are too small for features to be enumerated.
    """
    shares, captured = prior_shares(cov)
    order = {name: i for i, name in enumerate(cov.space.names)}
    named = [(" x ".join(sorted(involved, key=order.__getitem__)), share) for involved, share in shares.items()]
    return named[:SHOWN_SHARES], captured
