"""The paper's experiments: tables, figures, command; those on analogues of its data."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mkbo_plugins.cli import app
from mkbo_plugins.errors import TableError
from mkbo_plugins.experiments.benchmark.lookup import train
from mkbo_plugins.experiments.benchmark.paper import EXPERIMENTS, SETTINGS, reference, run_paper
from mkbo_plugins.experiments.benchmark.paper_report import convergence_figure, phase_figure, write_paper
from mkbo_plugins.experiments.benchmark.phases import PhaseRegression, regress_phases
from mkbo_plugins.experiments.benchmark.runner import Plan, make_problem, run
from mkbo_plugins.experiments.benchmark.tables import ALLOY
from tests.conftest import shared_file

FILES = ("dafd_droplets.csv", "alloy_calphad_known.csv", "alloy_calphad_candidates.csv")


@pytest.fixture(scope="module")
def folder() -> Path:
    for file in FILES:
        path = shared_file(f"data/{file}")
    return path.parent


@pytest.fixture(scope="module")
def phases(folder: Path) -> PhaseRegression:
    return regress_phases(folder)


@pytest.fixture(scope="module")
def few_rows(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with some rows of each table, on which machines are trained in a second."""
    small = tmp_path_factory.mktemp("few_rows")
    for file in FILES:
        table = pd.read_csv(folder / file)
        if "orifice_um" in table:
            table = table[table["orifice_um"].isin([100, 150])]
        table.sample(min(len(table), 60), random_state=0).to_csv(small / file, index=False)
    return small


def test_weights_are_those_published_with_the_table(phases: PhaseRegression):
    listing = shared_file("data/alloy_calphad_known.md").read_text().split("```")[1]
    published = pd.Series({name: float(weight) for name, weight in re.findall(r"(\w+) +(-?[\d.]+)", listing)})
    pd.testing.assert_series_equal(phases.weights.sort_index(), published.sort_index(), rtol=1e-4, atol=0.5)


def test_utility_of_the_weights_is_the_target_of_the_experiment(phases: PhaseRegression, folder: Path):
    candidates = pd.read_csv(folder / "alloy_calphad_candidates.csv")
    utility = candidates[list(phases.weights.index)] @ phases.weights
    assert utility.to_numpy() == pytest.approx(candidates["utility_demo"].to_numpy(), abs=1e-2)
    assert make_problem("alloy_calphad", 0, folder).outcome.max() == candidates["utility_demo"].max()


def test_phases_explain_the_order_of_strengths(phases: PhaseRegression):
    assert 0.7 < phases.rank_correlation < 0.8
    assert abs(phases.rank_correlation - phases.by_composition) < 0.1


def test_coefficients_are_strengths_at_the_largest_fractions(phases: PhaseRegression, folder: Path):
    largest = pd.read_csv(folder / "alloy_calphad_known.csv")[list(phases.weights.index)].max()
    np.testing.assert_allclose(phases.weights * largest, phases.coefficients)
    assert "SIZR" not in phases.weights  # one alloy has six millionths of it


def test_tables_without_phases_are_refused(folder: Path, tmp_path: Path):
    known = pd.read_csv(folder / ALLOY.file)
    elements = known[[name for name in known if not name.isupper()]]
    elements.to_csv(tmp_path / ALLOY.file, index=False)
    elements.to_csv(tmp_path / str(ALLOY.pool_file), index=False)
    with pytest.raises(TableError, match="column of a phase"):
        regress_phases(tmp_path)


def test_results_of_frames_lie_apart_where_they_differ(tmp_path: Path):
    for frame in ("centred", "unit"):
        plan = Plan(("forrester",), ("stock", "moment"), seeds=1, trials=1, frame=frame)
        run(plan, tmp_path, None, n_jobs=1)
    assert {path.name for path in (tmp_path / "knowledge").iterdir()} == {"forrester.0_gp", "forrester.0_gp_unit"}
    assert {path.name for path in (tmp_path / "campaigns").iterdir()} == {
        "forrester_0_gp_ei_stock_1_0.json",
        "forrester_0_gp_ei_moment_1_0.json",
        "forrester_0_gp_unit_ei_moment_1_0.json",
    }


def test_machine_of_the_paper_has_one_length_scale():
    cov = train(make_problem("simulated", 0, None), "svm_iso", "unit")
    assert (cov.record.trainer, cov.frame) == ("svm", "unit")
    assert len(set(cov.weights)) == 1


def test_experiments_give_tables_and_figures(few_rows: Path, phases: PhaseRegression, tmp_path: Path):
    results = run_paper(tmp_path, few_rows, seeds=1, trials=2, n_jobs=1)
    campaigns = sum(len(experiment.models) for experiment in EXPERIMENTS.values()) * len(SETTINGS)
    assert len(results.runs) == len(results.comparison) == campaigns
    of_references = results.comparison[results.comparison["model"].map(lambda model: reference(model) == model)]
    assert (of_references["difference"] == 0).all()
    for by_model in results.curves.values():
        starts = [losses[:, 0] for losses in by_model.values()]
        assert all(np.array_equal(start, starts[0]) for start in starts)
        assert all((np.diff(losses) <= 0).all() for losses in by_model.values())

    text = write_paper(results, phases, tmp_path, "Two trials.")
    assert all(experiment.setup in text and experiment.reported in text for experiment in EXPERIMENTS.values())
    written = {path.name for path in tmp_path.iterdir()}
    assert {"paper_runs.csv", "paper.md", "paper_phases.csv"} <= written
    for figure in ("target", "convergence", "phases"):
        assert (tmp_path / f"paper_{figure}.png").read_bytes().startswith(b"\x89PNG")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "paper_runs.csv"), results.runs)

    figure = convergence_figure(results.curves)
    assert len(figure.axes) == len(EXPERIMENTS) * len(SETTINGS)
    drawn = {line.get_label() for panel in figure.axes for line in panel.get_lines()}
    assert drawn == {text.get_text() for text in figure.legends[0].get_texts()}
    bars = phase_figure(phases).axes[0].patches
    assert [bar.get_width() for bar in bars][::-1] == pytest.approx(list(phases.coefficients))


def test_command_says_that_tables_are_needed_for_two_experiments(tmp_path: Path):
    arguments = ["--paper", "--out", str(tmp_path), "--seeds", "1", "--trials", "2", "--jobs", "1"]
    result = CliRunner().invoke(app, ["benchmark", *arguments])
    assert result.exit_code == 0, result.output
    report = (tmp_path / "paper.md").read_text()
    assert "2 trials after 3 random starting points" in report
    assert "Only simulated was run" in report
    assert "--data names their folder" in report
    assert set(pd.read_csv(tmp_path / "paper_runs.csv")["experiment"]) == {"simulated"}
    assert not (tmp_path / "paper_phases.png").exists()


def test_command_refuses_choices_that_the_paper_makes(tmp_path: Path):
    result = CliRunner().invoke(app, ["benchmark", "--paper", "--out", str(tmp_path), "--model", "stock"])
    assert result.exit_code == 2
    assert "--model" in result.output
    assert not list(tmp_path.iterdir())
