"""Campaigns run on the workers of a Dask cluster."""

from pathlib import Path

import joblib
import pandas as pd
import pytest

pytest.importorskip("distributed")

from distributed import Client, LocalCluster

from mkbo_plugins.experiments.benchmark.runner import Plan, load, run

PLAN = Plan(("forrester",), ("random", "stock", "moment"), seeds=2, trials=4)


def test_campaigns_run_on_the_workers_and_end_the_same(tmp_path: Path):
    load.cache_clear()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        with joblib.parallel_config(backend="dask"):
            on_workers = run(PLAN, tmp_path / "dask", None, n_jobs=-1)
        loaded = {worker: info.misses for worker, info in client.run(load.cache_info).items()}
    assert len(loaded) == 2
    assert sum(loaded.values()) > 0
    assert load.cache_info().misses == 0
    alone = run(PLAN, tmp_path / "alone", None, n_jobs=1)
    pd.testing.assert_frame_equal(on_workers.drop(columns="seconds"), alone.drop(columns="seconds"))
