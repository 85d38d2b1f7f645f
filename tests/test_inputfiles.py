"""Tables and spaces as people keep them."""

import sys

import pandas as pd
import pytest

from mkbo_plugins.errors import TableError
from mkbo_plugins.inputfiles import read_table_file, write_table_file


@pytest.mark.parametrize("name", ["table.csv", "table.xlsx"])
def test_what_is_written_is_read_back(table, tmp_path, name):
    write_table_file(table, tmp_path / name)
    pd.testing.assert_frame_equal(read_table_file(tmp_path / name), table)


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
