"""`mkbo check` lists every fault of a table at once."""

import json

import pandas as pd
import pytest

FAULTS = {
    "power": ("lots", "'lots'"),
    "rate": (-1.0, "'rate'"),
    "layers": (2.5, "whole numbers"),
    "gas": ("Xenon", "'Xenon'"),
    "strength": (float("inf"), "finite"),
}


def _check(run, *arguments):
    return run("check", "table.csv", "--target", "strength", *arguments)


def test_a_good_table_passes(run, folder):
    result = _check(run, "--space", "space.toml")
    assert result.exit_code == 0, result.output
    assert "24 rows, 0 errors, 0 remarks" in result.output


def test_all_faults_are_reported_together(run, folder, table):
    broken = table.astype(object)
    for row, (name, (value, _)) in enumerate(FAULTS.items()):
        broken.loc[row, name] = value
    broken.to_csv("table.csv", index=False)
    result = _check(run, "--space", "space.toml", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["errors"] == len(FAULTS)
    for row, (name, (_, words)) in enumerate(FAULTS.items()):
        (message,) = [f["message"] for f in report["findings"] if f["column"] == name]
        assert words in message
        assert f"line {row + 2} of table.csv" in message


def test_faults_behind_missing_values_are_found(run, folder, table):
    broken = table.astype(object)
    broken.loc[0, "power"], broken.loc[1, "power"] = None, "lots"
    broken.to_csv("table.csv", index=False)
    result = _check(run, "--space", "space.toml")
    assert result.exit_code == 1
    assert "missing" in result.output
    assert "'lots'" in result.output


def test_what_can_be_used_gets_remarks(run, folder, table):
    doubled = pd.concat([table, table.iloc[:2]]).assign(operator="x")
    doubled.loc[doubled.index[5], "power"] = 9000.0
    doubled.to_csv("table.csv", index=False)
    result = _check(run, "--space", "space.toml")
    assert result.exit_code == 0, result.output
    for words in (
        "26 rows have 24 different settings",
        "outside its bounds",
        "['operator'] are not in the space",
        "3 remarks",
    ):
        assert words in result.output


def test_columns_of_groups_and_noise_are_no_parameters(run, folder, table):
    table.assign(batch=table.index // 2, spread=0.1).to_csv("table.csv", index=False)
    assert "'spread' is constant" in _check(run, "--groups", "batch").output
    taken = _check(run, "--groups", "batch", "--noise", "spread").output
    assert "0 errors" in taken
    assert "batch" not in taken
    assert "spread" not in taken
    table.assign(spread=[0.1] * 23 + [-0.1]).to_csv("table.csv", index=False)
    result = _check(run, "--noise", "spread")
    assert result.exit_code == 1
    assert "above 0, got -0.1 in line 25" in result.output


def test_without_a_space_every_other_column_is_looked_at(run, folder, table):
    table.assign(lab="here", lot=["a,5"] + ["1,5"] * 23).to_csv("table.csv", index=False)
    result = _check(run)
    assert result.exit_code == 1
    assert "'lab' is constant" in result.output
    assert "'lot' holds text" in result.output
    assert _check(run, "--ignore", "lab", "--ignore", "lot").exit_code == 0


def test_missing_columns_and_targets_are_all_named(run, folder, table):
    table.drop(columns=["power", "strength", "gas"]).to_csv("table.csv", index=False)
    result = _check(run, "--space", "space.toml")
    assert result.exit_code == 1
    for name in ("'power'", "'strength'", "'gas'"):
        assert name in result.output


def test_labels_and_logarithms_are_checked_as_they_will_be_used(run, folder, table):
    table.assign(strength=table["strength"] - 5).to_csv("table.csv", index=False)
    assert "above 0" in _check(run, "--space", "space.toml", "--log-target").output
    assert _check(run, "--space", "space.toml", "--task", "classification").exit_code == 1


@pytest.mark.parametrize("rows", [0, 2])
def test_too_few_rows(run, folder, table, rows):
    table.iloc[:rows].to_csv("table.csv", index=False)
    result = _check(run)
    assert result.exit_code == 1
    assert "at least 3 rows" in result.output


def test_a_file_that_cannot_be_read_is_another_exit_code(run, folder):
    assert run("check", "absent.csv", "--target", "strength").exit_code == 2


def test_what_passes_can_be_trained_on(run, folder):
    assert _check(run, "--space", "space.toml").exit_code == 0
    arguments = ("pretrain", "table.csv", "--target", "strength", "--space", "space.toml", "--trainer", "gp")
    assert run(*arguments).exit_code == 0


def test_one_stray_cell_of_a_workbook_is_an_error_as_in_csv(run, folder, table):
    stray = table.astype({"layers": object})
    stray.loc[7, "layers"] = "2-3"
    stray.to_csv("table.csv", index=False)
    stray.to_excel("table.xlsx", index=False)
    for file, row in (("table.csv", "line 9 of table.csv"), ("table.xlsx", "row 9 of table.xlsx")):
        result = run("check", file, "--target", "strength")
        assert result.exit_code == 1
        assert f"'layers' holds text, '2-3' in {row}" in result.output


@pytest.mark.parametrize(
    "column", [[f"S-{i}" for i in range(24)], [*range(24)], [*(f"S-{i}" for i in range(20)), *["?"] * 4]]
)
def test_a_column_that_names_rows_gets_a_remark_unless_ignored(run, folder, table, column):
    table.assign(sample=column).to_csv("table.csv", index=False)
    result = _check(run)
    assert result.exit_code == 0, result.output
    assert "'sample' seems to name rows" in result.output
    assert "--ignore" in result.output
    assert "drop(" not in result.output
    assert "seems to name rows" not in _check(run, "--ignore", "sample").output
    trained = run("pretrain", "table.csv", "--target", "strength", "--trainer", "gp")
    assert "note: column 'sample' seems to name rows" in trained.output


@pytest.mark.parametrize("options", [(), ("--space", "space.toml")])
def test_levels_that_differ_in_case_or_blanks_are_noticed(run, folder, table, options):
    table.assign(gas=table["gas"].where(table.index > 3, "air ")).to_csv("table.csv", index=False)
    (folder / "space.toml").write_text((folder / "space.toml").read_text().replace('"Air"', '"Air", "air "'))
    result = _check(run, *options)
    assert result.exit_code == 0, result.output
    assert "differ only in case or blanks: [['Air', 'air ']]" in result.output.replace(
        "['air ', 'Air']", "['Air', 'air ']"
    )
    trained = run("pretrain", "table.csv", "--target", "strength", "--trainer", "gp", *options)
    assert "note: levels of 'gas' differ only in case or blanks" in trained.output


def test_an_unknown_level_names_the_close_one(run, folder, table):
    table.assign(gas=table["gas"].where(table.index > 0, "air")).to_csv("table.csv", index=False)
    assert "did you mean 'Air'?" in _check(run, "--space", "space.toml").output


@pytest.mark.parametrize("command", ["check", "pretrain"])
@pytest.mark.parametrize("options", [(), ("--space", "space.toml")])
@pytest.mark.parametrize(
    ("ignored", "words"),
    [("lyers", "did you mean 'layers'?"), ("gas,layers", "one --ignore for each"), ("strength", "target")],
)
def test_columns_to_ignore_are_columns(run, folder, command, options, ignored, words):
    result = run(command, "table.csv", "--target", "strength", "--ignore", ignored, *options)
    assert result.exit_code == 2
    assert "--ignore names" in result.output
    assert words in result.output


def test_a_target_that_is_no_column_names_the_close_one(run, folder):
    for command in ("check", "pretrain"):
        assert "did you mean 'strength'?" in run(command, "table.csv", "--target", "Strenght").output


def test_things_are_counted_in_words(run, folder, table):
    table.assign(operator="x").to_csv("table.csv", index=False)
    assert "24 rows, 0 errors, 1 remark\n" in _check(run, "--space", "space.toml").output
