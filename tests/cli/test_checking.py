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
        assert str(row) in message


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
    for words in ("2 rows repeat", "outside its bounds", "['operator'] are not in the space", "3 remarks"):
        assert words in result.output


def test_replicates_named_by_a_column_are_no_remark(run, folder, table):
    pd.concat([table, table]).assign(batch=[*range(24), *range(24)]).to_csv("table.csv", index=False)
    assert "repeat" in _check(run, "--space", "space.toml").output
    assert "repeat" not in _check(run, "--space", "space.toml", "--groups", "batch").output


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
