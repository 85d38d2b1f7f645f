"""Tables of levels that a space names, and what is said of their faults."""

import re

import pandas as pd
import pytest

from mkbo_plugins import ParameterSpace
from mkbo_plugins.errors import MkboError, SpaceError, TableError
from mkbo_plugins.space.described import MOST_DESCRIPTORS
from mkbo_plugins.tables.levelfiles import read_levels
from mkbo_plugins.tables.spacefiles import read_space_file

CSV = "name,pKa,cone\nPPh3,2.73,145\nPCy3,9.7,170\nNone,6.5,122\n007,11.4,182\n"
ROWS = {
    "PPh3": {"pKa": 2.73, "cone": 145.0},
    "PCy3": {"pKa": 9.7, "cone": 170.0},
    "None": {"pKa": 6.5, "cone": 122.0},
    "007": {"pKa": 11.4, "cone": 182.0},
}
SPACE = ParameterSpace.from_dict({"heat": (20, 80), "ligand": {"levels": ROWS}})
HEAT = "[heat]\nbounds = [20, 80]\n[ligand]\n"


def written(folder, content, name="ligands.csv"):
    (folder / name).write_text(content)
    return folder / name


def space_of(folder, section):
    return read_space_file(written(folder, HEAT + section, "space.toml"))


def test_a_space_names_a_table_beside_it_wherever_the_work_goes_on(tmp_path, monkeypatch):
    written(tmp_path, CSV)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert space_of(tmp_path, 'levels = {file = "ligands.csv"}') == SPACE
    absolute = f"levels = {{file = '{tmp_path / 'ligands.csv'}'}}"
    assert read_space_file(written(tmp_path / "elsewhere", HEAT + absolute, "space.toml")) == SPACE


def test_numbers_may_stand_in_the_space(tmp_path):
    rows = "".join(f'"{level}" = {{pKa = {row["pKa"]}, cone = {row["cone"]}}}\n' for level, row in ROWS.items())
    assert space_of(tmp_path, f"[ligand.levels]\n{rows}") == SPACE
    named = read_space_file(
        written(tmp_path, "[a.levels]\nfile = {p = 1}\ncolumn = {p = 2}\n", "odd.toml")
    )  # levels that are called as keys are
    assert named["a"].levels == ("file", "column")


def test_columns_may_be_named(tmp_path):
    frame = pd.read_csv(written(tmp_path, CSV), dtype={"name": str}, keep_default_na=False)
    frame.insert(0, "smiles", "P")
    frame.to_csv(tmp_path / "ligands.csv", index=False)
    section = 'levels = {file = "ligands.csv", column = "name", descriptors = ["pKa", "cone"]}'
    assert space_of(tmp_path, section) == SPACE
    assert read_levels(tmp_path / "ligands.csv", "name", ["cone"])["007"] == {"cone": 182.0}


def test_workbooks_and_semicolons_are_read(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.read_csv(written(tmp_path, CSV), dtype={"name": str}, keep_default_na=False)
    frame.to_excel(tmp_path / "book.xlsx", sheet_name="phosphines", index=False)
    assert space_of(tmp_path, 'levels = {file = "book.xlsx::phosphines"}') == SPACE
    written(tmp_path, CSV.replace(",", ";").replace(".", ","), "comma.csv")
    with pytest.warns(Warning, match="semicolons") as caught:
        assert space_of(tmp_path, 'levels = {file = "comma.csv"}') == SPACE
    assert len(caught) == 1


MANY = ",".join(f"d{j}" for j in range(MOST_DESCRIPTORS + 1))
MANY_ROWS = "\n".join(",".join(str(i * j + i) for j in range(MOST_DESCRIPTORS + 2)) for i in (1, 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (CSV.replace("9.7", ""), "descriptor 'pKa' of level 'PCy3', line 3 of ligands.csv, is missing"),
        (
            CSV.replace("9.7", "high"),
            "descriptor 'pKa' of level 'PCy3', line 3 of ligands.csv, must be a number, got 'high'",
        ),
        (CSV.replace("9.7", "inf"), "descriptor 'pKa' of level 'PCy3' must be a finite number"),
        (CSV.replace("PCy3", "PPh3"), r"level 'PPh3' of column 'name' is in lines \[2, 3\] of ligands.csv"),
        (CSV.replace("PCy3", ""), "column 'name' names no level in line 3 of ligands.csv"),
        (re.sub("(\n[^,]+,[^,]+),.*", r"\1,150", CSV), r"descriptors \['cone'\] are the same for every level, 150"),
        ("name\nPPh3\nPCy3\n", "need at least one descriptor"),
        ("name,p\nPPh3,1\n", "needs at least two levels"),
        ("name,p\n", "needs at least two levels"),
        ("name,p\na,1\nb,1\nc,2\n", "levels 'a' and 'b' have the same descriptors"),
        ("name,p\na,True\nb,False\n", "descriptor 'p' of level 'a', line 2 of ligands.csv, must be a number, got True"),
        (f"name,{MANY}\n{MANY_ROWS}", f"has {MOST_DESCRIPTORS + 1} descriptors"),
        ("", "ligands.csv"),
    ],
)
def test_faults_of_a_table_of_levels_name_file_column_and_level(tmp_path, content, message):
    written(tmp_path, content)
    with pytest.raises(SpaceError, match=message) as caught:
        space_of(tmp_path, 'levels = {file = "ligands.csv"}')
    assert "space.toml" in str(caught.value)
    assert "ligands.csv" in str(caught.value)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ('levels = {file = "ligand.csv"}', "ligand.csv"),
        ('levels = {file = "ligands.csv", column = "nome"}', "has no column 'nome'.*did you mean 'name'"),
        ('levels = {file = "ligands.csv", descriptors = ["pka"]}', "has no column 'pka'.*did you mean 'pKa'"),
        ('levels = {file = "ligands.csv", descriptors = "pKa"}', "'descriptors' must be a list of columns"),
        ('levels = {file = "ligands.csv", descriptors = []}', "need at least one descriptor"),
        ('levels = {file = "ligands.csv", names = "pKa"}', r"got \['names'\] too"),
        ('levels = {file = "ligands.csv"}\nordered = true', r"got \['ordered'\] too"),
        ("levels = {file = 3}", "must be names"),
        ('levels = {column = "name"}', "level 'column' needs"),
    ],
)
def test_faults_of_a_section_are_named(tmp_path, section, message):
    written(tmp_path, CSV)
    with pytest.raises(SpaceError, match=f"(?s)space.toml.*{message}"):
        space_of(tmp_path, section)


def test_all_faults_of_a_space_are_named_at_once(tmp_path):
    written(tmp_path, CSV.replace("9.7", "high"))
    written(tmp_path, 'later = 3\n[ligand]\nlevels = {file = "ligands.csv"}\n', "space.toml")
    with pytest.raises(SpaceError, match=r"\[later\].*'high'"):
        read_space_file(tmp_path / "space.toml")


def test_a_named_column_of_text_says_no_more_than_it_must(tmp_path):
    path = written(tmp_path, CSV.replace("9.7", "high"))
    with pytest.raises(TableError) as caught:
        read_levels(path, "name", ["pKa"])
    assert "descriptors = " not in str(caught.value)
    with pytest.raises(MkboError, match=r"descriptors = \[\.\.\.\]"):
        read_levels(path)
