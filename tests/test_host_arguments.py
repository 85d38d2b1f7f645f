"""Arguments of the hosts' functions that are of no use are refused in words that name them."""

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins.errors import MkboError
from tests.fuzzing import host_calls

WRONG = [
    *((name, {"fixed": ["gas"]}, ["fixed", "mapping", "list"]) for name in ("pretrained_gp", "suggest")),
    *((name, {"fixed": 1.0}, ["fixed", "mapping", "float"]) for name in ("use_pretrained", "pretrained_regressor")),
    ("pretrained_gp", {"names": float("nan")}, ["names", "nan"]),
    ("pretrained_gp", {"names": np.zeros((2, 2))}, ["names", "list of names"]),
    ("pretrained_regressor", {"names": 2}, ["names", "2"]),
    ("pretrained_regressor", {"names": pd.DataFrame({"a": [1, 2]})}, ["names", "list of names"]),
    ("pretrained_regressor", {"dimensions": 3}, ["dimensions", "3"]),
    ("pretrained_regressor", {"dimensions": [None]}, ["dimensions", "Invalid dimension None"]),
    ("pretrained_regressor", {"inputs": np.zeros(0)}, ["inputs", "'raw'"]),
    ("suggest", {"cov": {1: 2}}, ["cov", "PretrainedCovariance", "dict"]),
    ("suggest", {"trials": np.zeros((2, 2))}, ["trials", "ndarray", "Trials.none"]),
    ("suggest", {"candidates": [[0.5, 0.5]]}, ["candidates", "array", "list"]),
    ("suggest", {"minimise": "yes"}, ["minimise", "'yes'"]),
    ("suggest", {"required": "y >= 1"}, ["required", "'y >= 1'"]),
    *(("suggest", {"seed": seed}, ["seed", repr(seed)]) for seed in (True, 0.5, "same", -1, 10**30)),
    ("use_pretrained", {"cov": {"y": None}}, ["cov", "NoneType"]),
    ("suggest", {"candidates": np.array(1.0)}, ["candidates", "rows"]),
    ("use_pretrained", {"rename": {"a": ["b"]}}, ["rename", "['b']"]),
    ("use_pretrained", {"rename": "same"}, ["rename", "mapping", "str"]),
    ("use_pretrained", {"rename": {"power": "p"}, "direction": "same"}, ["'power'", "['a', 'b']"]),
    ("use_pretrained", {"fixed": {"power": 1.0}, "direction": "same"}, ["'power'", "['a', 'b']"]),
    ("PretrainedSampler", {"cov": "file.json"}, ["cov", "PretrainedCovariance", "str"]),
    ("PretrainedSampler", {"form": "best"}, ["best"]),
    ("PretrainedSampler", {"form": "stock", "direction": "same"}, ["form='stock'"]),
    ("PretrainedSampler", {"initial_trials": 2}, ["initial_trials", "whole number from 3", "2"]),
    ("PretrainedSampler", {"direction": "up"}, ["'up'"]),
    ("PretrainedSampler", {"fixed": ["a"]}, ["fixed", "mapping"]),
    ("PretrainedSampler", {"fixed": {"a": 1.0}}, ["'a'", "both fixed and in the study"]),
    ("PretrainedSampler", {"distributions": {"a": (0, 1)}}, ["distributions", "mapping", "(0, 1)"]),
    ("PretrainedSampler", {"independent_sampler": "tpe"}, ["independent_sampler", "sampler of Optuna", "str"]),
    ("PretrainedSampler", {"constraints_func": 1.0}, ["constraints_func", "function"]),
    ("PretrainedSampler", {"seed": -1}, ["seed", "whole number from 0", "-1"]),
]


@pytest.fixture(scope="module")
def calls():
    for host in ("torch", "ax", "optuna", "skopt"):
        pytest.importorskip(host)
    return host_calls()


@pytest.mark.parametrize(("name", "changed", "words"), WRONG, ids=[f"{name} {changed}" for name, changed, _ in WRONG])
def test_wrong_arguments_are_named(name, changed, words, calls):
    function, right = calls[name]
    with pytest.raises(MkboError) as refusal:
        function(**right | changed)
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize("wrong", [{"fixed": {"power": 1.0}}, {"rename": {"power": "p"}}])
def test_a_strategy_of_no_search_space_knows_its_covariances_names(wrong, calls):
    from mkbo_plugins.ax import pretrained_generation_strategy

    with pytest.raises(MkboError, match=r"'power'.*\['a', 'b'\]"):
        pretrained_generation_strategy(calls["use_pretrained"][1]["cov"], direction="same", **wrong)
