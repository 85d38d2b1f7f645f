"""Annotated shapes hold: .ci/run checks them in all tests of the core, this module in what hosts do with it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jaxtyping import Float, TypeCheckError, jaxtyped

from tests.shapes import checked

TRAINING = """
from jaxtyping import install_import_hook

install_import_hook("mkbo_plugins", "tests.checked")
import numpy as np
from mkbo_plugins import ParameterSpace, PretrainedCovariance, pretrain

X = np.random.default_rng(0).uniform(0, 1, (12, 2))
y = X[:, 0] - X[:, 1] ** 2
space = ParameterSpace.from_dict({"a": (0, 1), "b": (0, 1)})
cov = pretrain((X, y), space=space, C=1.0, sigma=1.0, epsilon=0.01, progress=False)
cov.gram(X), cov.predict(X), cov.verdict(X, y), cov.starting_points(3, "same")
"""

BOTORCH = """
import torch
from mkbo_plugins.botorch import pretrained_gp

torch.set_default_dtype(torch.double)
X, y = torch.tensor(X), torch.tensor(y)[:, None]
model = pretrained_gp(cov, X, y)
model.train()
loss = -model.likelihood(model(X)).log_prob(y[:, 0])
loss.backward()
model.eval()
Z = torch.rand(5, 3, 2, requires_grad=True)
posterior = model.posterior(Z)
(posterior.mean.sum() + posterior.variance.sum()).backward()
print(Z.grad.shape)
"""

SKOPT = """
from mkbo_plugins.skopt import pretrained_regressor

model = pretrained_regressor(cov, [(0.0, 1.0)] * 2, names=["a", "b"]).fit(X, y)
print(model.predict(X, return_std=True)[1].shape, model.predict(X[:1], True, False, True, True)[2].shape)
"""


def transposed(x: Float[np.ndarray, "n d"], name: str = "") -> Float[np.ndarray, "d n"]:
    return x


def test_wrong_shapes_and_dtypes_raise_and_other_types_are_let_through():
    function = jaxtyped(transposed, typechecker=checked)
    assert function(np.eye(2), name=0).shape == (2, 2)
    with pytest.raises(TypeCheckError):
        function(np.ones((3, 2)))
    with pytest.raises(TypeCheckError):
        function(np.ones((2, 2), dtype=int))


@pytest.mark.parametrize("host", ["botorch", "skopt"])
def test_shapes_hold_in_training_fits_and_predictions(host):
    pytest.importorskip(host)
    script = TRAINING + {"botorch": BOTORCH, "skopt": SKOPT}[host]
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=Path(__file__).parents[1], check=False
    )
    assert run.returncode == 0, run.stderr
