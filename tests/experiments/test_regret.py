import numpy as np

from mkbo_plugins.experiments.regret import normalised_regret, trials_to
from mkbo_plugins.report.bootstrap import bootstrap_interval


def test_normalised_regret_is_one_at_the_worst_and_zero_at_the_best():
    assert normalised_regret(np.array([2.0, 6.0, 10.0]), best=10.0, worst=2.0).tolist() == [1.0, 0.5, 0.0]


def test_trials_to_counts_from_one_and_marks_runs_that_never_arrive():
    regret = np.array([[0.5, 0.02, 0.0], [0.01, 0.01, 0.01], [0.9, 0.9, 0.9]])
    assert trials_to(regret, 0.02).tolist() == [2, 1, 4]


def test_the_bootstrap_interval_covers_the_mean_and_shrinks_with_more_runs():
    generator = np.random.default_rng(0)
    few, many = generator.normal(1, 1, 20), generator.normal(1, 1, 2000)
    for sample in (few, many):
        low, high = bootstrap_interval(sample)
        assert low < sample.mean() < high
    assert np.ptp(bootstrap_interval(many)) < np.ptp(bootstrap_interval(few))
