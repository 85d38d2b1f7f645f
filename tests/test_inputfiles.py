"""Tables and spaces as people keep them."""

import sys

import pandas as pd
import pytest

from mkbo_plugins.errors import SpaceError, TableError, TableWarning
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables.inputfiles import read_space_file, read_table_file, write_table_file


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_what_is_written_is_read_back(table, tmp_path, name):
    write_table_file(table, tmp_path / name)
    pd.testing.assert_frame_equal(read_table_file(tmp_path / name).reset_index(drop=True), table)


def test_a_workbook_of_several_sheets_needs_one_named(table, tmp_path):
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        table.to_excel(book, sheet_name="Runs 2024", index=False)
        table.iloc[:3].to_excel(book, sheet_name="Notes", index=False)
    assert len(read_table_file(tmp_path / "book.xlsx::Notes")) == 3
    with pytest.raises(TableError, match=r"name one, as in .*book\.xlsx::Runs 2024"):
        read_table_file(path)
    with pytest.raises(TableError, match="no sheet 'Absent'"):
        read_table_file(tmp_path / "book.xlsx::Absent")


def test_empty_rows_below_a_table_are_left_out(table, tmp_path):
    pd.concat([table, pd.DataFrame([{}] * 3)]).to_excel(tmp_path / "book.xlsx", index=False)
    assert len(read_table_file(tmp_path / "book.xlsx")) == len(table)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"no workbook at all"])
def test_a_damaged_workbook_is_refused_with_a_sentence(tmp_path, content):
    (tmp_path / "book.xlsx").write_bytes(content)
    with pytest.raises(TableError, match=r"book\.xlsx cannot be read as an Excel workbook"):
        read_table_file(tmp_path / "book.xlsx")


def test_missing_openpyxl_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r"mkbo_plugins\[excel\]"):
        read_table_file(tmp_path / "book.xlsx")


def _refused(tmp_path, content, name="table.csv"):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(TableError) as caught:
        read_table_file(tmp_path / name)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is empty"]),
        ("\n \n,,\n", ["is empty"]),
        ("a,T °C,y\n1,2,3\n".encode("latin-1"), ["is not UTF-8 text", "CSV UTF-8"]),
        ("a,y\n1,2\n3,4\n5,6,7,8\n", ["line 4 has 4 values", "header in line 1 has 2", "names of columns"]),
        ("a,y\n1,2\n\n3,4,1\n", ["line 4 has 3 values"]),
        ('a,y\n"two\nlines",2\n3,4,1\n', ["line 4 has 3 values"]),
        ("Furnace runs 2024\na,y\n1,2\n", ["is the header in the first line?"]),
        ("Furnace runs 2024,\na,y\n1,2\n", ["columns [2]", "is the header in the first line?"]),
        ("a,b,a \n1,2,3\n", ["'a'", "more than once"]),
    ],
)
def test_a_table_that_is_none_is_refused_with_a_sentence(tmp_path, content, words):
    message = _refused(tmp_path, content)
    for word in ("table.csv", *words):
        assert word in message


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_rows_are_called_as_the_file_shows_them(tmp_path, name):
    table = pd.DataFrame({"a": [1.0, None, 3.0, 4.0, 5.0], "y": [1.0, None, 3.0, None, 5.0]})
    write_table_file(table, tmp_path / name)
    read = read_table_file(tmp_path / name)
    assert read.index.tolist() == [2, 4, 5, 6]
    noun = "line" if name.endswith("csv") else "row"
    assert RowNames.of(read).at([0]) == f"{noun} 2 of {name}"
    assert RowNames.of(read.iloc[2:]).at([0, 1]) == f"{noun}s [5, 6] of {name}"


def test_lines_are_counted_as_an_editor_does(tmp_path):
    (tmp_path / "table.csv").write_text('\na,y\r\n"two\nlines",2\n\n"x",4\n"z",\n')
    read = read_table_file(tmp_path / "table.csv")
    assert read.index.tolist() == [3, 6, 7]
    assert read["a"].tolist() == ["two\nlines", "x", "z"]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_blanks_around_names_are_left_out_with_a_note(table, tmp_path, name):
    write_table_file(table.rename(columns={"power": " power "}), tmp_path / name)
    with pytest.warns(TableWarning, match=r"\[' power '\]"):
        assert read_table_file(tmp_path / name).columns.tolist() == table.columns.tolist()


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_empty_columns_without_a_name_are_left_out_and_filled_ones_are_kept(table, tmp_path, name):
    wide = table.assign(**{"": None, " ": range(len(table))})
    write_table_file(wide, tmp_path / name)
    assert read_table_file(tmp_path / name).columns.tolist() == [*table.columns, "Unnamed: 6"]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_doubled_names_are_refused(table, tmp_path, name):
    write_table_file(pd.concat([table, table[["power"]]], axis=1), tmp_path / name)
    with pytest.raises(TableError, match=r"\['power'\] occur more than once"):
        read_table_file(tmp_path / name)


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_one_stray_cell_is_named_the_same_in_both_kinds_of_file(table, tmp_path, name):
    stray = table.astype({"layers": object})
    stray.loc[7, "layers"], stray.loc[9, "layers"] = "2-3", "4,1"
    write_table_file(stray, tmp_path / name)
    noun = "lines" if name.endswith("csv") else "rows"
    with pytest.raises(SpaceError, match=rf"'layers' holds text, '2-3', '4,1' in {noun} \[9, 11\] of {name}"):
        ParameterSpace.from_table(read_table_file(tmp_path / name), "strength")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[time (s)]\nbounds = [1, 2]\n", ["quoted", '["time (s)"]']),
        ("[a]\nbounds = [1, 2]\nintger = true\n", ["did you mean 'integer'?"]),
        ("[a]\nBounds = [1, 2]\n", ["did you mean 'bounds'?"]),
        ("[a]\nbounds = [2, 1]\n[b]\nlevels = ['x']\n", ["'a'", "swap", "'b'", "two levels"]),
        ("[a.b]\nbounds = [1, 2]\n", ['["a.b"]']),
        ("a = [1, 2]\n", ["section [a]"]),
        ("", ["at least one parameter"]),
    ],
)
def test_every_fault_of_a_space_is_named(tmp_path, content, words):
    (tmp_path / "space.toml").write_text(content)
    with pytest.raises(SpaceError) as caught:
        read_space_file(tmp_path / "space.toml")
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_a_level_called_like_a_missing_value_is_one_where_the_space_names_it(tmp_path, name):
    table = pd.DataFrame({"ligand": ["None", "NA", "XPhos", ""], "y": ["1", "2", "NA", "4"]})
    write_table_file(table, tmp_path / name)
    space = ParameterSpace.from_dict({"ligand": ["None", "NA", "XPhos"]})
    found = read_table_file(tmp_path / name, space)
    assert found["ligand"].tolist()[:3] == ["None", "NA", "XPhos"]
    assert found["ligand"].isna().tolist() == [False, False, False, True]
    assert found["y"].isna().tolist() == [False, False, True, False]
    assert read_table_file(tmp_path / name)["ligand"].isna().tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("levels", "cells"), [(["1", "2"], "1,2"), (["007", "7"], "007,7"), (["TRUE", "no"], "TRUE,no")]
)
def test_levels_that_are_texts_are_read_as_texts(tmp_path, levels, cells):
    (tmp_path / "table.csv").write_text("batch\n" + cells.replace(",", "\n"))
    found = read_table_file(tmp_path / "table.csv", ParameterSpace.from_dict({"batch": {"levels": levels}}))
    assert found["batch"].tolist() == levels


def test_a_sheet_with_its_header_further_down_says_so(table, tmp_path):
    table.to_excel(tmp_path / "book.xlsx", index=False, startrow=2)
    with pytest.raises(TableError, match="no column names in its first row"):
        read_table_file(tmp_path / "book.xlsx")
