"""What `mkbo check` and `mkbo pretrain` take the columns of real tables as, what they ask, and how to answer."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mkbo_plugins import PretrainedCovariance
from mkbo_plugins.inspection import inspect_table
from mkbo_plugins.tables.inputfiles import read_table_file
from mkbo_plugins.tables.spacefiles import read_space_file


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a function that writes a table as a file in the working folder; settings on a grid, results are not."""
    rng = np.random.default_rng(1)
    runs = pd.DataFrame({"temp": rng.choice([20, 40, 60, 80], 30), "eq": rng.choice([1.0, 1.5, 2.0], 30)})
    runs["growth"] = np.round(runs["temp"] ** 0.5 + 3 * runs["eq"] + rng.normal(0, 0.3, 30), 3)
    monkeypatch.chdir(tmp_path)

    def write(name="lab.csv", **columns):
        table = runs.assign(**columns)
        table.to_csv(name, index=False)
        return table

    return write


def _results(n=30, seed=2):
    rng = np.random.default_rng(seed)
    return {"selectivity": np.round(rng.uniform(70, 95, n), 2), "waste_g": np.round(rng.uniform(0.5, 2.5, n), 3)}


COMMANDS = (("check",), ("pretrain", "--trainer", "gp"))


def _run(run, command, *arguments, file="lab.csv"):
    name, *options = command
    return run(name, file, "--target", "growth", *options, *arguments)


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_parameters_are_listed_as_taken(run, lab, command):
    lab(gas=["Ar", "N2", "Air"] * 10)
    output = _run(run, command).output
    for line in (
        "parameter temp: whole numbers, 20 to 80, linear scale",
        "parameter eq: real numbers, 1 to 2, linear scale",
        "parameter gas: 3 levels without an order: Air, Ar, N2",
        "where these hold whole numbers, only such are proposed. To say otherwise, edit a space",
    ):
        assert line in output


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_further_results_are_asked_about_until_the_parameters_are_named(run, lab, command):
    lab(**_results())
    output = _run(run, command).output
    assert "columns ['selectivity', 'waste_g'] have many different values beside ['temp', 'eq']: are they" in output
    for answer in (("--ignore", "selectivity", "--ignore", "waste_g"), ("--parameters", "temp, eq")):
        result = _run(run, command, *answer)
        assert result.exit_code == 0, result.output
        assert "are they results" not in result.output
        assert "parameter temp" in result.output
        assert "parameter selectivity" not in result.output
    if command[0] == "pretrain":
        assert PretrainedCovariance.load("lab.mkbo.json").space.names == ("temp", "eq")


@pytest.mark.parametrize("name", ["val_loss", "run time [s]", "testAccuracy", "Yield / %", "cost"])
def test_names_of_results_are_known(run, lab, name):
    rng = np.random.default_rng(3)
    lab(temp=rng.uniform(20, 80, 30), eq=rng.uniform(1, 2, 30), **{name: rng.integers(5, 5000, 30)})
    assert f"columns [{name!r}] have many different values" in _run(run, ("check",)).output
    lab(**{name: np.resize([1, 2], 30)})
    assert "are they results" not in _run(run, ("check",)).output


def test_a_search_of_continuous_settings_is_not_asked_about(run, lab):
    rng = np.random.default_rng(4)
    lab(temp=rng.uniform(20, 80, 30), eq=rng.uniform(1, 2, 30))
    assert "are they results" not in _run(run, ("check",)).output


def test_names_with_commas_are_named_by_an_option_each(run, lab):
    lab().rename(columns={"temp": "temp, K", "eq": "eq, mol"}).to_csv("lab.csv", index=False)
    result = _run(run, ("check",), "--parameters", "temp, K", "--parameters", "eq, mol")
    assert result.exit_code == 0, result.output
    assert "parameter temp, K: whole numbers" in result.output


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--parameters", "temp,eqq"], "did you mean 'eq'?"),
        (["--parameters", "temp,temp"], "more than once"),
        (["--parameters", "temp,growth"], "used as target"),
        (["--parameters", "temp", "--ignore", "eq"], "give one of them"),
        (["--levels", "tmp"], "did you mean 'temp'?"),
    ],
)
def test_columns_that_are_named_are_checked(run, lab, command, arguments, words):
    lab()
    result = _run(run, command, *arguments)
    assert result.exit_code == 2
    assert words in result.output


def test_in_python_parameters_are_named_too(lab):
    table = lab(**_results())
    asked = [f.message for f in inspect_table(table, "growth") if "are they results" in f.message]
    assert len(asked) == 1
    assert "parameters= (--parameters)" in asked[0]
    named = inspect_table(table, "growth", parameters=("temp", "eq"))
    assert not [f for f in named if "are they results" in f.message]
    assert [f.column for f in inspect_table(table, "growth", parameters=("tmp",)) if f.severity == "error"] == ["tmp"]


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_constant_columns_are_left_out_with_one_note(run, lab, command):
    lab(device="A", lot="1%1%1%1", date="01.01.2024", solvent="5 mL", empty=None, scale=3)
    result = _run(run, command)
    assert result.exit_code == 0, result.output
    assert result.output.count("constant or empty and are left out") == 1
    assert "columns ['device', 'lot', 'date', 'solvent', 'empty', 'scale'] are constant" in result.output.replace(
        "'solvent', 'scale', 'empty'", "'solvent', 'empty', 'scale'"
    )
    assert "seems to be numbers" not in result.output


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_table_without_anything_that_varies_is_refused(run, lab, command):
    lab(temp=1, eq="x")
    result = _run(run, command)
    assert result.exit_code != 0
    assert "no column that may be a parameter varies" in result.output


def test_whole_numbers_are_proposed_for_columns_of_them(run, lab):
    lab()
    assert _run(run, ("pretrain", "--trainer", "gp")).exit_code == 0
    advice = run("suggest", "--covariance", "lab.mkbo.json", "--direction", "same", "-n", 3, "--json")
    points = [one["point"] for one in json.loads(advice.stdout)["suggestions"]]
    assert all(isinstance(point["temp"], int) for point in points)
    assert any(point["eq"] != round(point["eq"]) for point in points)


def test_a_space_that_says_otherwise_wins(run, lab):
    lab()
    assert _run(run, ("check",), "--write-space", "space.toml").exit_code == 0
    lines = Path("space.toml").read_text().splitlines()
    Path("space.toml").write_text("\n".join(line for line in lines if not line.startswith("integer")))
    assert _run(run, ("pretrain", "--trainer", "gp"), "--space", "space.toml").exit_code == 0
    assert not PretrainedCovariance.load("lab.mkbo.json").space["temp"].integer


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_decades_get_a_remark_that_names_log(run, lab, command):
    rng = np.random.default_rng(5)
    table = lab(rate=10 ** rng.uniform(-5, -1.5, 30), width=2 ** rng.integers(3, 9, 30), shift=rng.normal(0, 1e4, 30))
    output = _run(run, command).output
    assert "column 'rate' is positive and spans 3." in output
    assert "log = true" in output
    assert "column 'width' is positive" not in output
    assert "column 'shift' is positive" not in output
    assert table["rate"].max() / table["rate"].min() > 1000


ODD_NAMES = [
    "temp, °C",
    'a "quoted" name',
    "dotted.name",
    "back\\slash",
    "[brackets]",
    "two\nlines",
    "tab\tand\x7f",
    "'",
]


def test_a_space_that_is_written_is_read_back_unchanged(run, lab):
    rng = np.random.default_rng(6)
    odd = {name: rng.uniform(0, 1, 30) * 10.0 ** rng.integers(-9, 20) for name in ODD_NAMES}
    levels = ["it's", 'say "x"', "back\\", "=1+1", "", "None", "é\x7f", "two\nlines", "[/b]", "1.5"]
    table = lab(**odd, base=np.resize(levels, 30), flag=np.resize([True, False], 30), site=np.resize([3, 7], 30))
    result = _run(run, ("check",), "--levels", "base", "--levels", "site", "--write-space", "space.toml", "--json")
    assert result.exit_code == 1  # an empty cell is a missing value
    report = json.loads(result.stdout)
    space = read_space_file(Path("space.toml"))
    assert list(space.names) == [name for name in table.columns if name != "growth"]
    assert space.to_dict() == report["parameters"]
    assert set(space["base"].levels) == set(levels) - {""}
    assert space["site"].levels == ("3", "7")
    assert space["flag"].levels == (False, True)


def test_a_file_is_never_replaced_by_a_space(run, lab):
    lab()
    for name in ("space.toml", "lab.csv"):
        Path(name).touch()
        before = Path(name).read_text()
        result = _run(run, ("check",), "--write-space", name)
        assert result.exit_code == 2
        assert "it exists, and is not replaced" in result.output
        assert Path(name).read_text() == before
    assert _run(run, ("check",), "--space", "lab.csv", "--write-space", "new.toml").exit_code == 2


@pytest.mark.parametrize("command", COMMANDS, ids=str)
@pytest.mark.parametrize("levels", [["None", "NaOH"], ["None", "NaOH", "NA", "KOH"]], ids=len)
def test_none_is_a_level_without_naming_the_others(run, lab, command, levels):
    lab(base=np.resize(levels, 30))
    refused = _run(run, command)
    assert refused.exit_code in (1, 2)
    assert "with --levels" in refused.output
    result = _run(run, command, "--levels", "base")
    assert result.exit_code == 0, result.output
    assert f"parameter base: {len(levels)} levels without an order: {', '.join(sorted(levels))}" in result.output


def test_how_a_file_was_read_is_among_the_findings(run, lab):
    table = lab()
    table.assign(temp=[f"{value} °C" for value in table["temp"]]).to_csv("lab.csv", index=False)
    report = json.loads(_run(run, ("check",), "--json").stdout)
    assert report["errors"] == 0
    assert any("'°C' behind every number" in finding["message"] for finding in report["findings"])
    assert report["parameters"]["temp"] == {"bounds": [20, 80], "log": False, "integer": True}


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_several_units_are_an_error_and_no_advice_to_leave_the_column_out(run, lab, command):
    lab(time=[f"{i % 7 + 1} {'h' if i % 3 else 'min'}" for i in range(30)])
    result = _run(run, command)
    assert result.exit_code in (1, 2)
    assert "column 'time' holds numbers with different units: 'min' in lines [2, 5" in result.output
    assert "--ignore" not in result.output


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([f"2024-01-{i + 1:02d}" for i in range(30)], "'x' holds dates or times"),
        ([f"{i % 12}:30" for i in range(30)], "'x' holds dates or times"),
        ([i + (i > 9) + 2 * (i > 20) for i in range(30)], "'x' seems to name rows"),
        ([-999, *range(29)], "'x' holds -999 in line 2 of lab.csv, far from its other values, 0 to 28"),
        ([9999.0, *np.linspace(0, 1, 29)], "'x' holds 9999 in line 2"),
        ([10 * i for i in range(30)], None),
        ([99, *range(60, 89)], None),
        ([0, 100] * 15, None),
    ],
)
def test_dates_ids_and_sentinels_get_a_remark(run, lab, values, words):
    lab(x=values)
    result = _run(run, ("check",))
    assert result.exit_code == 0, result.output
    kinds = ("holds dates", "seems to name rows", "far from its other values")
    if words is None:
        assert not any(kind in result.output for kind in kinds)
    else:
        assert words in result.output


@pytest.mark.parametrize("name", ["trial_index", "sample nr", "runId"])
def test_whole_numbers_that_differ_in_every_row_name_rows_if_their_name_says_so(run, lab, name):
    order = np.random.default_rng(7).permutation(30) * 3
    lab(**{name: order})
    assert f"column {name!r} seems to name rows" in _run(run, ("check",)).output
    lab(size=order)
    assert "seems to name rows" not in _run(run, ("check",)).output


def test_a_sentinel_of_the_target_is_seen(run, lab):
    table = lab()
    table.loc[4, "growth"] = -999
    table.to_csv("lab.csv", index=False)
    assert "column 'growth' holds -999 in line 6 of lab.csv" in _run(run, ("check",)).output


def test_pending_rows_are_missing_to_training_and_pending_to_suggestions(run, lab):
    table = lab().astype({"growth": object})
    table.loc[[3, 5], "growth"] = ["PENDING", "pending"]
    table.to_csv("lab.csv", index=False)
    refused = _run(run, ("pretrain", "--trainer", "gp"))
    assert refused.exit_code == 2
    assert "values are missing in columns ['growth'], lines [5, 7] of lab.csv" in refused.output
    assert _run(run, ("pretrain", "--trainer", "gp"), "--drop-missing").exit_code == 0
    table.iloc[:6].to_csv("done.csv", index=False)
    advice = run("suggest", "--covariance", "lab.mkbo.json", "--done", "done.csv", "--json")
    assert advice.exit_code == 0, advice.output
    assert json.loads(advice.stdout)["pending"] == 2


@pytest.mark.parametrize("command", [*COMMANDS, ("suggest",)], ids=str)
def test_all_words_in_the_column_of_outcomes_are_named(run, lab, command):
    table = lab().astype({"growth": object})
    if command == ("suggest",):
        _run(run, ("pretrain", "--trainer", "gp"))
    table.loc[[3, 5, 6], "growth"] = ["lost", "n.d.", "lost"]
    table.to_csv("lab.csv", index=False)
    if command == ("suggest",):
        result = run("suggest", "--covariance", "lab.mkbo.json", "--done", "lab.csv")
    else:
        result = _run(run, command)
    assert result.exit_code in (1, 2)
    assert "got 'lost', 'n.d.' in lines [5, 7, 8] of lab.csv" in result.output


def test_suggestions_with_levels_like_formulas_come_back(run, lab):
    lab(base=np.resize(["-OH", "=CH2", "+", "@home"], 30))
    assert _run(run, ("pretrain", "--trainer", "gp")).exit_code == 0
    for name in ("next.csv", "next.xlsx"):
        result = run("suggest", "--covariance", "lab.mkbo.json", "--direction", "same", "-n", 4, "--out", name)
        assert result.exit_code == 0, result.output
        space = PretrainedCovariance.load("lab.mkbo.json").space
        assert space.to_raw(read_table_file(Path(name), space)).shape == (4, 3)
