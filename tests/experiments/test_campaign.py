import numpy as np
import pytest

from mkbo_plugins import ParameterSpace, pretrain

pytest.importorskip("botorch")

from mkbo_plugins.experiments.campaign import Campaign, run_campaign


@pytest.fixture(scope="module")
def pool():
    space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)})
    candidates = space.sobol(32)
    return candidates, -((candidates[:, 0] - 0.6) ** 2) - (candidates[:, 1] - 0.3) ** 2


@pytest.fixture(scope="module")
def pool_cov(pool):
    candidates, values = pool
    return pretrain((candidates, values), space=ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)}), trainer="gp")


def test_starts_come_first_and_nothing_is_tried_twice(pool, pool_cov):
    candidates, values = pool
    campaign = run_campaign(pool_cov, "transfer", candidates, lambda i: float(values[i]), [5, 9], 6, seed=0)
    assert campaign.indices[:2] == (5, 9)
    assert len(set(campaign.indices)) == len(campaign.indices) == 8
    assert campaign.values == tuple(values[list(campaign.indices)])


def test_same_seed_same_campaign(pool, pool_cov):
    candidates, values = pool
    runs = [run_campaign(pool_cov, "moment", candidates, lambda i: float(values[i]), [0], 3, seed=4) for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_table_of_the_target_itself_finds_its_best_row_at_once(pool, pool_cov):
    candidates, values = pool
    worst = [int(i) for i in np.argsort(values)[:2]]
    campaign = run_campaign(pool_cov, "transfer", candidates, lambda i: float(values[i]), worst, 2, seed=0)
    assert campaign.best_so_far[-1] == values.max()


def test_best_so_far():
    assert Campaign((0, 1, 2), (1.0, 3.0, 2.0)).best_so_far.tolist() == [1.0, 3.0, 3.0]
