"""Sobol sequences, also where a program is interrupted while SciPy reads what they are made of."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from mkbo_plugins.core.sobol import sobol_points


@pytest.mark.parametrize("n", [0, 1, 2, 5, 64])
def test_points_are_those_of_scipy(n):
    assert np.array_equal(sobol_points(3, n, 7), qmc.Sobol(3, seed=7).random(64)[:n])


def test_an_interruption_that_scipy_swallows_is_not_lost():
    """SciPy then goes on with points that are all equal."""
    program = (
        "import numpy\ndef interrupted(*args, **kwargs): raise KeyboardInterrupt\nnumpy.load = interrupted\n"
        "from mkbo_plugins.core.sobol import sobol_points\n"
        "try:\n    print(sobol_points(2, 1, 0))\nexcept KeyboardInterrupt:\n    print('interrupted')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "interrupted\n"
