"""Laser-induced graphene: the real table as knowledge and as a lookup pool."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("botorch")

from mkbo_plugins import pretrain
from mkbo_plugins.experiments.lig_graphene import SPACE, TARGET, _lookup_campaign, summarise
from tests.conftest import shared_file


def test_real_pool_can_be_optimised():
    data = pd.read_csv(shared_file("data/lig_graphene.csv"))
    source, pool = data[data["precursor"] == "PI"].iloc[:60], data[data["precursor"] == "GOPI"]
    cov = pretrain(source, TARGET, SPACE, trainer="gp")
    values = pool[TARGET].to_numpy()
    campaign = _lookup_campaign(cov, "moment", SPACE.to_raw(pool), values, seed=0, trials=3)
    assert len(set(campaign.indices)) == 6
    assert campaign.values == tuple(values[list(campaign.indices)])


def test_summary_compares_with_the_stock_model_by_pairs():
    stock = np.array([[0.5, 0.5], [0.3, 0.3]])
    better = stock - 0.1
    summary = summarise({("-", "stock"): stock, ("gp", "transfer"): better}).set_index("form")
    assert summary.loc["transfer", "difference"] == pytest.approx(-0.1)
    assert summary.loc["transfer", "harmed"] == 0
    assert summary.loc["stock", "difference"] == 0
