"""Droplet generators through Ax: one short campaign of each method on the real table."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("ax")

from mkbo_plugins import pretrain
from mkbo_plugins.experiments.dafd_ax import METHODS, SIZE, SPACE, WANTED_UM, run, summarise
from tests.conftest import shared_file


@pytest.fixture(scope="module")
def problem():
    data = pd.read_csv(shared_file("data/dafd_droplets.csv"))
    source = data[data["orifice_um"] == 100].sample(25, random_state=0).reset_index(drop=True)
    target = data[data["orifice_um"] == 150].sample(30, random_state=0).reset_index(drop=True)
    return source, pretrain(source, SIZE, SPACE, trainer="gp", progress=False), target


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", METHODS)
def test_a_campaign_tries_different_rows_from_the_same_start(method, problem):
    source, cov, target = problem
    campaign = run(method, source, cov, target, seed=0, trials=2)
    assert campaign.indices[:3] == tuple(np.random.default_rng(0).choice(len(target), 3, replace=False))
    assert len(set(campaign.indices)) == 5
    assert campaign.values == tuple(-((target[SIZE] - WANTED_UM) ** 2)[list(campaign.indices)])
    assert len(campaign.seconds) == 2


def test_summary_compares_with_ax_by_pairs():
    misses = {"ax": np.full((4, 5), 10.0), "pretrained": np.full((4, 5), 1.0)}
    seconds = {"ax": np.ones((4, 5)), "pretrained": np.full((4, 5), 3.0)}
    summary = summarise(misses, seconds, best=2.0).set_index("method")
    assert summary.loc["pretrained", "difference"] == pytest.approx(-1)
    assert summary.loc["pretrained", "reached"] == 1
    assert summary.loc["ax", "reached"] == 0
    assert summary.loc["pretrained", "seconds_per_suggestion"] == 3
