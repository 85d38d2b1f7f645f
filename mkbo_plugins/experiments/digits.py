"""Tuning a support vector classifier of handwritten digits: cheap runs on few images, dear ones on all of them."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from mkbo_plugins.space.space import ParameterSpace

SPACE = ParameterSpace.from_dict(
    {
        "C": (1e-2, 1e4, "log"),
        "gamma": (1e-6, 1e1, "log"),
        "components": (2, 60, "int"),
        "scaling": ["raw", "standard"],
    }
)
TARGET = "minus_log10_error"


@lru_cache
def images(subset: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return pixels and digits of all 1,797 images, or of a subset of them with the same share of each digit."""
    X, y = load_digits(return_X_y=True)
    if subset is not None:
        X, _, y, _ = train_test_split(X, y, train_size=subset, stratify=y, random_state=0)
    return X, y


def score(setting: dict[str, Any], subset: int | None = None) -> float:
    """Return -log10 of the cross-validated error of a classifier trained with a setting; larger is better.

    Parameters
    ----------
    setting
        Values of the parameters of `SPACE` by name.
    subset
        Number of images to use, of 1,797; None uses all.
    """
    X, y = images(subset)
    steps = [StandardScaler()] if setting["scaling"] == "standard" else []
    model = make_pipeline(
        *steps,
        PCA(n_components=setting["components"], random_state=0),
        SVC(C=setting["C"], gamma=setting["gamma"], cache_size=200),
    )
    return -log_error(model, X, y)


def log_error(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Return log10 of the cross-validated error of a classifier, at least that of half a row."""
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    return math.log10(max(1 - float(cross_val_score(model, X, y, cv=folds).mean()), 0.5 / len(y)))


def tuning_table(runs: int, subset: int, seed: int, n_jobs: int = 1) -> pd.DataFrame:
    """Return space-filling settings with their scores on a subset of the images: condensed knowledge."""
    settings = SPACE.from_raw(SPACE.sobol(runs, seed))
    scores = Parallel(n_jobs=n_jobs)(delayed(score)(setting, subset) for setting in settings)
    return pd.DataFrame(settings).assign(**{TARGET: scores})
