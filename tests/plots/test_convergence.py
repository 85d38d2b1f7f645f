import numpy as np
import pytest

pytest.importorskip("matplotlib")

from mkbo_plugins.plots import convergence


def test_convergence_draws_the_mean_of_every_curve_on_the_axes_given():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    curves = {"stock": np.array([[3.0, 2.0], [5.0, 2.0]]), "transfer": np.array([[1.0, 1.0]])}
    assert convergence(curves, "error, %", ax=axes) is axes
    assert [line.get_label() for line in axes.get_lines()] == ["stock", "transfer"]
    assert axes.get_lines()[0].get_ydata().tolist() == [4.0, 2.0]
    assert axes.get_ylabel() == "error, %"


def test_a_logarithmic_scale_does_not_change_the_curve():
    axes = convergence({"stock": np.array([[1.0, 1.0], [100.0, 1.0]])}, "error", log=True, start=4)
    assert axes.get_yscale() == "log"
    assert axes.get_lines()[0].get_xydata().tolist() == [[4.0, 50.5], [5.0, 1.0]]


def test_the_interval_of_the_mean_stays_within_the_runs():
    axes = convergence({"stock": np.array([[1.0, 1.0], [2.0, 2.0], [40.0, 40.0]])}, "error")
    (band,) = axes.collections
    heights = band.get_paths()[0].vertices[:, 1]
    assert 1.0 <= heights.min() < 43 / 3 < heights.max() <= 40.0


def test_curves_differ_without_colour():
    curves = {name: np.ones((2, 3)) for name in ("a", "b", "c", "d")}
    lines = convergence(curves, "error").get_lines()
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == 4


def test_more_curves_than_styles_are_all_drawn():
    axes = convergence({f"model {i}": np.array([[1.0, i]]) for i in range(6)}, "error")
    assert [line.get_label() for line in axes.get_lines()] == [f"model {i}" for i in range(6)]
