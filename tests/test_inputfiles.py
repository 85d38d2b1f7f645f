"""Tables and spaces as people keep them."""

import csv
import re
import sys
import zipfile
from contextlib import suppress

import numpy as np
import openpyxl
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mkbo_plugins.errors import MkboError, SpaceError, TableError, TableWarning
from mkbo_plugins.messages.rows import RowNames
from mkbo_plugins.space.cells import reads_as_number
from mkbo_plugins.space.space import ParameterSpace
from mkbo_plugins.tables import csvfiles, workbooks
from mkbo_plugins.tables.inputfiles import read_table_file, write_table_file
from mkbo_plugins.tables.sheets import guarded, unguarded
from mkbo_plugins.tables.spacefiles import read_space_file


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


# Tables as other programs write them


def _read(tmp_path, content, name="table.csv", **options):
    (tmp_path / name).write_text(content, encoding="utf-8")
    return read_table_file(tmp_path / name, **options)


@pytest.mark.parametrize("header", ["Temperatur;Druck;Gas", "Temperatur, °C;Druck, bar;Gas, rein"])
@pytest.mark.parametrize("mark", [",", "."])
def test_semicolons_are_read_where_every_line_has_as_many(tmp_path, header, mark):
    content = f"{header}\r\n60,9;3,06;Ar\r\n96;-1,4e2;N2\r\n\r\n31,5;0,49;\r\n".replace(",", mark)
    with pytest.warns(TableWarning, match="semicolons between columns( and decimal commas)?$"):
        table = _read(tmp_path, content)
    assert table.columns.tolist() == [name.replace(",", mark) for name in header.split(";")]
    assert table.iloc[:, 0].tolist() == [60.9, 96.0, 31.5]
    assert table.iloc[:, 1].tolist() == [3.06, -140.0, 0.49]
    assert table.iloc[:, 2].tolist()[:2] == ["Ar", "N2"]
    assert table.index.tolist() == [2, 3, 5]


def test_semicolons_inside_cells_of_a_table_with_commas_stay_there(tmp_path):
    table = _read(tmp_path, "salt;acid,T,y\nCC;O,5,3\nC;N,6,4\n")
    assert table.columns.tolist() == ["salt;acid", "T", "y"]
    assert table.iloc[:, 0].tolist() == ["CC;O", "C;N"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a;y\n1,5;2\n2,5\n", ["line 3 has not as many", ".xlsx"]),
        ("a;y\n1,5;2\n2.5;3\n", ["'1,5' in line 2", "'2.5' in line 3", ".xlsx"]),
        ("a;y\n1.234,5;2\n2,5;3\n", ["'1.234,5' in line 2", "'2,5' in line 3", ".xlsx"]),
        ("a\ty\n1\t2\n", ["single column", ".xlsx"]),
        ('{"a": [1, 2]}', ["JSON", "client.summarize().to_csv(", "study.trials_dataframe().to_csv("]),
        ('\ufeff\n [{"a": 1},\n{"a": 2}]', ["begins with [", "JSON"]),
        ("[[1, 2], [3, 4]]", ["JSON"]),
        ("[power]\nbounds = [1, 2]\n", ["begins with ["]),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ["old Excel workbook", ".xlsx"]),
        (b"PK\x03\x04" + bytes(100), ["workbook", ".xlsx"]),
    ],
)
def test_files_that_cannot_be_read_say_what_to_do(tmp_path, content, words):
    message = _refused(tmp_path, content)
    for word in ("table.csv", *words):
        assert word in message


def test_an_old_workbook_is_known_by_its_bytes(tmp_path):
    (tmp_path / "book.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(TableError, match=r"old Excel workbook \(\.xls\) or has a password"):
        read_table_file(tmp_path / "book.xlsx")


def test_a_name_in_brackets_is_no_json(tmp_path):
    assert _read(tmp_path, "[Pd],T,y\n1,2,3\n").columns.tolist() == ["[Pd]", "T", "y"]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_one_unit_behind_all_numbers_is_left_out_with_a_note(tmp_path, name):
    units = pd.DataFrame({"T": ["60.9 °C", "96°C", None], "t": ["1 h", "2 h", "3 h"], "y": ["3 %", "4 %", "5 %"]})
    write_table_file(units, tmp_path / name)
    with pytest.warns(TableWarning) as caught:
        table = read_table_file(tmp_path / name)
    assert table["T"].tolist()[:2] == [60.9, 96.0]
    assert table["t"].tolist() == [1, 2, 3]
    assert table["y"].tolist() == [3, 4, 5]
    assert [f"{name}: column {column} has {unit} behind every number" in str(one.message) for one, column, unit in zip(
        caught, ["'T'", "'t'", "'y'"], ["'°C'", "'h'", "'%'"], strict=True
    )] == [True] * 3  # fmt: skip


def test_decimal_commas_before_units_are_read_where_all_commas_are_decimal(tmp_path):
    with pytest.warns(TableWarning):
        assert _read(tmp_path, "T;y\n60,9 °C;1\n96,0 °C;2\n")["T"].tolist() == [60.9, 96.0]


@pytest.mark.parametrize(
    "options",
    [{"space": ParameterSpace.from_dict({"t": ["1,5 h", "2,5 h"]})}, {"levels": ["t"]}],
    ids=["space", "levels"],
)
@pytest.mark.filterwarnings("ignore:.*semicolons")
def test_levels_with_units_stay_levels_where_the_space_or_the_user_names_them(tmp_path, options):
    assert _read(tmp_path, "t;y\n1,5 h;1\n2,5 h;2\n", **options)["t"].tolist() == ["1,5 h", "2,5 h"]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_words_for_missing_values_are_levels_in_columns_that_are_read_as_such(tmp_path, name):
    write_table_file(pd.DataFrame({"base": ["None", "NA", "007", None], "y": [1, 2, 3, 4]}), tmp_path / name)
    assert read_table_file(tmp_path / name, levels=["base"])["base"].tolist()[:3] == ["None", "NA", "007"]
    assert read_table_file(tmp_path / name, levels=["base"])["base"].isna().tolist() == [False, False, False, True]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_pending_is_a_missing_value_among_numbers_only(tmp_path, name):
    write_table_file(
        pd.DataFrame({"state": ["done", "PENDING", "done"], "y": [1.5, "PENDING", 2], "z": ["x", "pending", 1]}),
        tmp_path / name,
    )
    table = read_table_file(tmp_path / name)
    assert table["y"].isna().tolist() == [False, True, False]
    assert table["y"].dropna().tolist() == [1.5, 2.0]
    assert table["state"].tolist() == ["done", "PENDING", "done"]
    assert table["z"].tolist() == ["x", "pending", "1"]


def test_dates_of_workbooks_are_texts_as_in_csv(tmp_path):
    dates = pd.DataFrame({"day": pd.date_range("2024-01-30", periods=3), "y": [1, 2, 3]})
    for name in ("table.csv", "table.xlsx"):
        write_table_file(dates, tmp_path / name)
        assert read_table_file(tmp_path / name)["day"].tolist() == ["2024-01-30", "2024-01-31", "2024-02-01"]


def test_numbers_of_a_workbook_are_kept_to_the_last_digit(tmp_path):
    numbers = np.random.default_rng(0).normal(size=500) * 10.0 ** np.arange(-250, 250)
    write_table_file(pd.DataFrame({"y": numbers}), tmp_path / "table.xlsx")
    column = openpyxl.load_workbook(tmp_path / "table.xlsx").active["A"]
    assert read_table_file(tmp_path / "table.xlsx")["y"].tolist() == [cell.value for cell in column[1:]]


# Spreadsheets

FORMULAS = ["=1+1", "+49", "-OH", "@here", "=cmd|' /C calc'!A0", "\t=A1", "'=A1", "''-x", "'plain", "-", "-5", "a=b"]


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_no_text_becomes_a_formula_and_all_come_back(tmp_path, name):
    table = pd.DataFrame({"=name": FORMULAS, "@y": np.linspace(-1.5, 2, len(FORMULAS)), "-log P": "x"})
    write_table_file(table, tmp_path / name)
    back = read_table_file(tmp_path / name, levels=["=name"])
    pd.testing.assert_frame_equal(back.astype({"=name": str}).reset_index(drop=True), table)
    if name == "table.csv":
        with (tmp_path / name).open(newline="") as file:
            cells = [cell for row in csv.reader(file) for cell in row]
        assert all(reads_as_number(cell) for cell in cells if re.match(r"\s*[=+@-].", cell))
    else:
        sheet = openpyxl.load_workbook(tmp_path / name).active
        assert not [cell.value for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("'=+-@ \tx1.e"), max_size=6))
def test_guards_of_texts_are_taken_away_again(text):
    assert unguarded(guarded(text)) == text


def test_a_workbook_that_cannot_hold_a_text_says_so(tmp_path):
    with pytest.raises(TableError, match="control characters; write CSV"):
        write_table_file(pd.DataFrame({"a": ["\x1b[31m"]}), tmp_path / "table.xlsx")


# Workbooks that are damaged or made to harm


def _book(table, path, edit):
    """Write a workbook, and again with the texts of its parts as `edit` returns them, by name."""
    table.to_excel(path, index=False)
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, data in (parts | edit(parts)).items():
            archive.writestr(part, data)


SHEET = "xl/worksheets/sheet1.xml"


def test_a_cell_right_of_the_names_is_named(table, tmp_path):
    table.assign(**{"": [None] * 8 + ["see notes"] + [None] * (len(table) - 9)}).to_excel(
        tmp_path / "book.xlsx", index=False
    )
    with pytest.raises(TableError, match=r"row 10 has 'see notes' in column 6, but the first row has only 5 names"):
        read_table_file(tmp_path / "book.xlsx")


def test_declared_sizes_of_a_sheet_do_not_matter(table, tmp_path, monkeypatch):
    monkeypatch.setattr(workbooks, "MOST_CELLS", 2 * table.size)

    def vast(parts):
        return {SHEET: re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"', parts[SHEET])}

    _book(table, tmp_path / "book.xlsx", vast)
    assert len(read_table_file(tmp_path / "book.xlsx")) == len(table)


def test_far_cells_and_parts_that_unpack_to_much_are_refused(table, tmp_path, monkeypatch):
    path = tmp_path / "book.xlsx"
    _book(table, path, lambda parts: {SHEET: parts[SHEET].replace(b'r="5"', b'r="9000000000"')})
    with pytest.raises(TableError, match="too large: it has cells beyond row"):
        read_table_file(path)
    monkeypatch.setattr(workbooks, "MOST_CELLS", 50)
    table.to_excel(path, index=False)
    with pytest.raises(TableError, match="or 50 cells"):
        read_table_file(path)
    _book(table, path, lambda parts: {"xl/styles.xml": bytes(workbooks.MOST_BYTES + 1)})
    assert path.stat().st_size < 2**20
    with pytest.raises(TableError, match=r"'xl/styles.xml' in it unpacks to more than 32 MiB"):
        read_table_file(path)


def test_charts_are_no_sheets_of_cells(tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["a", "y"])
    book.active.append([1, 2])
    book.create_chartsheet("Plot").add_chart(openpyxl.chart.BarChart())
    book.save(tmp_path / "book.xlsx")
    assert len(read_table_file(tmp_path / "book.xlsx")) == 1
    with pytest.raises(TableError, match="the sheet 'Plot' is a chart"):
        read_table_file(tmp_path / "book.xlsx::Plot")


@pytest.mark.filterwarnings("ignore")
def test_damaged_workbooks_end_in_a_sentence(table, tmp_path):
    path, rng = tmp_path / "book.xlsx", np.random.default_rng(0)
    table.to_excel(path, index=False)
    whole = path.read_bytes()
    for cut in rng.integers(1, len(whole), 10):
        path.write_bytes(whole[:cut])
        with pytest.raises(TableError, match="cannot be read as an Excel workbook"):
            read_table_file(path)
    for _ in range(60):
        damaged = bytearray(whole)
        for at in rng.integers(0, len(whole), 3):
            damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        with suppress(MkboError):
            read_table_file(path)
    for _ in range(60):

        def changed(parts):
            part = sorted(parts)[rng.integers(len(parts))]
            data = bytearray(parts[part])
            data[rng.integers(len(data))] = int(rng.integers(256))
            return {part: bytes(data)}

        _book(table, path, changed)
        with suppress(MkboError):
            read_table_file(path)


def test_an_endless_file_and_a_table_of_too_many_cells_are_refused(tmp_path, monkeypatch):
    (tmp_path / "endless.csv").symlink_to("/dev/zero")
    with pytest.raises(TableError, match="larger than 128 MiB"):
        read_table_file(tmp_path / "endless.csv")
    monkeypatch.setattr(csvfiles, "MOST_CELLS", 9)
    (tmp_path / "nine.csv").write_text("a,b,c\n1,2,3\n4,5,6\n")
    assert read_table_file(tmp_path / "nine.csv").size == 6
    (tmp_path / "twelve.csv").write_text("a,b,c\n1,2,3\n4,5,6\n7,8,9\n")
    with pytest.raises(TableError, match=r"twelve\.csv has more than 9 cells; leave out columns"):
        read_table_file(tmp_path / "twelve.csv")
