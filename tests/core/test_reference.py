"""Values printed by the program of the method's authors."""

import json

import numpy as np
import pytest

from mkbo_plugins.core import (
    Exponential,
    Linear,
    Polynomial,
    SquaredExponential,
    TwoLayerKernel,
    normalise,
    reweight,
)
from mkbo_plugins.core.training.svr import fit_svr, leave_one_out
from tests.conftest import shared_file

KERNELS = {
    "lin": lambda sigma: Linear(),
    "poly3": lambda sigma: Polynomial(degree=3),
    "exp": lambda sigma: Exponential(sigma=sigma),
    "se": lambda sigma: SquaredExponential(sigma=sigma),
}

VARIANTS = {
    "unnormalised": lambda kernel: kernel,
    "normalised": normalise,
    "composite_SE_r0_0.5_of_unnormalised": lambda kernel: TwoLayerKernel(kernel, scale=0.25),
}


@pytest.fixture(scope="module")
def reference():
    return json.loads(shared_file("reference/svmheavy_values.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def kernel_values(reference):
    return {(entry["kernel"], entry["m"]): entry for entry in reference["kernel_values"]}


@pytest.mark.parametrize("m", [2, 3, 4])
@pytest.mark.parametrize("name", KERNELS)
def test_kernel_values(name, m, kernel_values):
    entry = kernel_values[name, m]
    kernel = KERNELS[name](entry["sigma"])
    values = [float(kernel(*points)) for points in entry["points"]]
    np.testing.assert_allclose(values, entry["values"], rtol=0, atol=1e-10)


@pytest.mark.parametrize("index", range(4))
def test_support_vector_machines(index, reference):
    entry = reference["svr"][index]
    gram = KERNELS[entry["kernel"]](entry["sigma"]).gram(np.array(entry["X"]))
    fit = fit_svr(gram, np.array(entry["y"]), entry["C_over_N"], entry["epsilon"])
    assert fit.converged
    np.testing.assert_allclose(fit.alpha, entry["alpha"], rtol=0, atol=1e-4)
    assert fit.bias == pytest.approx(entry["bias"], abs=1e-4)


@pytest.mark.parametrize("index", range(4))
def test_leave_one_out_errors(index, reference):
    entry = reference["svr"][index]
    gram = KERNELS[entry["kernel"]](entry["sigma"]).gram(np.array(entry["X"]))
    loo = leave_one_out(gram, np.array(entry["y"]), entry["C_over_N"], entry["epsilon"])
    assert loo.error == pytest.approx(entry["loo_mse"], rel=0.02)


@pytest.mark.parametrize("index", range(12))
def test_reweighted_values(index, reference):
    entry = reference["reweighted"][index]
    kernel = reweight(KERNELS[entry["base_kernel"]](entry["sigma"]), entry["X"], entry["alpha"])
    points = np.array(entry["eval_points"])
    gram = VARIANTS[entry["variant"]](kernel).gram(points)
    for (i, j), expected in zip(entry["pairs"], entry["values"], strict=True):
        undefined = "0/0" in entry.get("note", "") and 0 in (i, j)
        assert gram[i, j] == pytest.approx(float(i == j) if undefined else expected, abs=1e-10, rel=1e-10)


def test_every_entry_is_looked_at(reference, kernel_values):
    assert set(kernel_values) == {(name, m) for name in KERNELS for m in (2, 3, 4)}
    assert len(reference["kernel_values"]) == 12
    assert len(reference["svr"]) == 4
    assert len(reference["reweighted"]) == 12
    assert {entry["variant"] for entry in reference["reweighted"]} == set(VARIANTS)
