"""What a table was and how the machine trained on it was chosen."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from mkbo_plugins.covariance.content import Reader
from mkbo_plugins.covariance.limits import ERROR, ROWS, SPREAD, VALUE, WIDTH
from mkbo_plugins.errors import ArtefactError

Trainer = Literal["svm", "gp"]
"""How the machine is trained: as a support vector machine or by a Gaussian process."""
TRAINERS: tuple[Trainer, ...] = get_args(Trainer)


@dataclass(frozen=True)
class TrainingRecord:
    """What the table was and how the machine was chosen; nothing here enters the covariance.

    Parameters
    ----------
    target
        Name of the table's target column.
    rows
        Number of rows trained on.
    target_mean, target_spread
        Mean and standard deviation of the target over these rows, by their weights, as it was trained on: after the
        logarithm if one was taken, and in normal scores if it was ranked.
    task
        ``"regression"`` or ``"classification"``.
    trainer
        ``"svm"`` or ``"gp"``.
    C, epsilon
        Box bound and tube half-width of the support vector machine; None for trainer ``"gp"``. A classifier has no
        epsilon.
    loo_mse
        Leave-one-out mean squared error, conditional on coordinate weights learned from all rows. Of labels, -1 and 1,
        that of predicted labels with both classes weighing the same: four times the error rate.
    notes
        Remarks worth a look, such as a best value at the edge of the grid.
    classes
        Names of the labels -1 and 1 of a classifier; None otherwise.
    """

    target: str
    rows: int
    target_mean: float
    target_spread: float
    task: str
    trainer: str
    C: float | None
    epsilon: float | None
    loo_mse: float
    notes: tuple[str, ...] = ()
    classes: tuple[str, str] | None = None

    @property
    def explained(self) -> float:
        """Share of the target's variance that held-out predictions explain; of labels, Youden's index.

        Youden's index is 1 - 2 error rate with both classes weighing the same, 0 for guesses.
        """
        if self.task == "classification":
            return 1 - self.loo_mse / 2
        return 1 - self.loo_mse / self.target_spread**2

    def to_content(self) -> dict[str, Any]:
        """Return the record's saved form."""
        encoded = asdict(self) | {"notes": list(self.notes)}
        # Only files of classifiers have classes.
        classes = encoded.pop("classes")
        return encoded if classes is None else encoded | {"classes": list(classes)}

    @classmethod
    def from_content(cls, content: Reader) -> "TrainingRecord":
        """Return the record saved as `content`; raises `ArtefactError` where it is none."""
        classes = content.texts("classes") if "classes" in content.values else None
        if classes is not None and len(classes) != 2:
            raise ArtefactError(f"{content.path}'classes' must be two names, got {list(classes)}")
        return cls(
            target=content.text("target"),
            rows=content.whole("rows", ROWS),
            target_mean=content.number("target_mean", VALUE),
            target_spread=content.number("target_spread", SPREAD),
            task=content.text("task", ("regression", "classification")),
            trainer=content.text("trainer", TRAINERS),
            C=content.optional_number("C", SPREAD),
            epsilon=content.optional_number("epsilon", WIDTH),
            loo_mse=content.number("loo_mse", ERROR),
            notes=content.texts("notes"),
            classes=classes,
        )
