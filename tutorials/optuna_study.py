# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Optuna: an earlier study as knowledge
#
# A support vector classifier was tuned last month on few images. This month there are more of them, every trial takes
# longer, and there is a new choice to make. The old study is the table from which the new one begins.

# %%
import tempfile
import warnings
from pathlib import Path

import numpy as np
import optuna
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from mkbo_plugins import pretrain
from mkbo_plugins.optuna import PretrainedSampler, parameter_space

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
digits, labels = load_digits(return_X_y=True)
folds = StratifiedKFold(3, shuffle=True, random_state=0)


def error(classifier: SVC | RandomForestClassifier, images: int) -> float:
    """Return log10 of the share of digits that a classifier gets wrong, by cross-validation."""
    model = make_pipeline(MinMaxScaler(), classifier)
    right = cross_val_score(model, digits[:images], labels[:images], cv=folds).mean()
    return float(np.log10(max(1 - right, 0.5 / images)))


def support_vectors(trial: optuna.Trial) -> SVC:
    """Return a classifier with the settings of a trial."""
    return SVC(C=trial.suggest_float("C", 1e-2, 1e4, log=True), gamma=trial.suggest_float("gamma", 1e-5, 1e1, log=True))


# %% [markdown]
# ## Last month
#
# An ordinary study, on 180 images. Its completed trials are a table as they are, and its distributions a space.

# %%
last_month = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
last_month.optimize(lambda trial: error(support_vectors(trial), 180), n_trials=40)
cov = pretrain(last_month, space=parameter_space(last_month), trainer="gp", progress=False)
print(f"best of 40 trials on 180 images: {10**last_month.best_value:.1%} wrong, with {last_month.best_params}")
print(f"held-out predictions explain {cov.record.explained:.0%} of the variance")

# %% [markdown]
# ## This month
#
# Both values are errors, so that they point the same way: `direction="same"`. The study knows that it minimises. For
# comparison, the same number of trials by Optuna's own samplers; all of them three times.


# %%
def best_so_far(sampler: optuna.samplers.BaseSampler, trials: int = 8) -> np.ndarray:
    """Return the least error so far after each trial, in percent."""
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: error(support_vectors(trial), 900), n_trials=trials)
    return 100 * 10 ** np.minimum.accumulate([trial.value for trial in study.trials])


samplers = {
    "TPESampler": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "GPSampler": lambda seed: optuna.samplers.GPSampler(seed=seed, n_startup_trials=3),
    "PretrainedSampler": lambda seed: PretrainedSampler(cov, direction="same", initial_trials=3, seed=seed),
}
for name, sampler in samplers.items():
    mean = np.mean([best_so_far(sampler(seed)) for seed in range(3)], axis=0)
    print(f"{name:17}", np.round(mean, 2), "% wrong")

# %% [markdown]
# ## A study with branches, which is interrupted
#
# Now a forest is in the running as well. Whether a trial has `C` and `gamma` depends on the choice of the model, which
# the table knows nothing of: `distributions=` says what it is about, and everything else is left to another sampler,
# TPE unless one is named. Trials are kept in a database, from where a new process goes on, or several at a time.


# %%
def objective(trial: optuna.Trial) -> float:
    """Return the error of one of two kinds of classifiers."""
    if trial.suggest_categorical("model", ["support vectors", "forest"]) == "support vectors":
        return error(support_vectors(trial), 900)
    depth = trial.suggest_int("depth", 3, 15)
    return error(RandomForestClassifier(30, max_depth=depth, random_state=0), 900)


known = {name: last_month.best_trial.distributions[name] for name in ("C", "gamma")}
storage = f"sqlite:///{Path(tempfile.mkdtemp()) / 'tuning.db'}"
for seed, part in enumerate(("begun", "gone on with")):
    sampler = PretrainedSampler(cov, direction="same", initial_trials=3, distributions=known, seed=seed)
    study = optuna.create_study(storage=storage, study_name="tuning", sampler=sampler, load_if_exists=True)
    study.optimize(objective, n_trials=8)
    print(f"{part}: {len(study.trials)} trials, best {10**study.best_value:.2%} wrong, with {study.best_params}")

# %% [markdown]
# ## What comes next, and does the table help?

# %%
advice = study.sampler.advise(study)
print({name: float(f"{value:.3g}") for name, value in advice.suggestions[0].point.items()})
print(advice.suggestions[0].why)
print(f"Does the table help? {advice.verdict or 'too few trials have its parameters to tell'}")
