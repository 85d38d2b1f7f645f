"""The exploration weight of GP-UCB."""

import math

import numpy as np

from mkbo_plugins.errors import MkboError


def gp_ucb_beta(trial: int, candidates: int, delta: float = 0.1) -> float:
    """Return beta_t of GP-UCB, which maximises mean + sqrt(beta_t) * standard deviation.

    With probability at least 1 - delta, the regret of the sum over trials then grows more slowly than their number.

    Parameters
    ----------
    trial
        Number t of the trial, from 1.
    candidates
        Number |D| of candidates.
    delta
        Probability that the bound fails, between 0 and 1.

    Returns
    -------
    float
        2 log(|D| t^2 pi^2 / (6 delta)).

    Raises
    ------
    MkboError
        If an argument is not as described.

    Notes
    -----
    Source: Srinivas et al., "Gaussian process optimization in the bandit setting", ICML 2010, theorem 1.
    """
    for name, value in (("trial", trial), ("candidates", candidates)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
            raise MkboError(f"{name} must be a whole number of at least 1, got {value!r}")
    if not 0 < delta < 1:
        raise MkboError(f"delta must lie between 0 and 1, got {delta!r}")
    return 2 * math.log(candidates * trial**2 * math.pi**2 / (6 * delta))
