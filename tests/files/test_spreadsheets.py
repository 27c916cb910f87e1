"""Tables as people have them are read right, or refused in a sentence that says what to change."""

import re

import numpy as np
import pytest

from dpmarket import FileProblem
from dpmarket.campaign.rules.columns import columns_by_type, feature_fields, read_codes
from dpmarket.campaign.rules.template import declared_by, sample_template
from dpmarket.files import excel, read_table, refuse
from dpmarket.progress import told_of_reading
from support import spreadsheets

FIELDS = feature_fields(
    {
        "weight": {"low": 0, "high": 200},
        "since": {"first": "2000-01-01", "last": "2030-01-01"},
        "smoker": {"boolean": True},
        "town": {"categories": ["Köln, Süd", "Ulm"]},
    },
    "refuse",
)


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(path):
    """Return rows as a campaign reads them: ids, and what everything else means."""
    texts, numbers = columns_by_type(FIELDS)
    table = read_table(path, ["id", *texts, *numbers], ["id", *texts], numbers)
    codes, problems = read_codes(FIELDS, table, np.arange(table.height))
    refuse(table, path, problems)
    values = [[str(value) for value in field.values(own)] for field, own in zip(FIELDS, codes.T, strict=True)]
    return list(zip(table.get_column("id"), *values, strict=True))


@pytest.mark.parametrize("name", spreadsheets.RIGHT)
def test_a_table_is_read_whatever_its_spelling(tmp_path, name):
    expected = [(row[0], *map(str, row[1:])) for row in spreadsheets.ROWS]
    assert read(put(tmp_path, name, spreadsheets.RIGHT[name])) == expected


@pytest.mark.parametrize("name", spreadsheets.WRONG)
def test_what_cannot_be_read_without_guessing_is_refused_with_its_place(tmp_path, name):
    content, words = spreadsheets.WRONG[name]
    with pytest.raises(FileProblem) as refused:
        read(put(tmp_path, name, content))
    said = str(refused.value)
    assert re.search(words, said), said
    assert "\n" not in said
    assert not re.search(r"81.25|Zo|K\wln", said)  # nothing of the table


def test_cells_are_counted_over_all_sheets_of_a_workbook(tmp_path, monkeypatch):
    monkeypatch.setattr(excel, "_MOST_CELLS", 1_000)

    def many_sheets(sheet, book):
        for number in range(20):
            book.create_sheet(f"s{number}")["CV1"] = "far to the right"

    with pytest.raises(FileProblem, match="more than 1,000 cells"):
        read(put(tmp_path, "sheets.xlsx", spreadsheets.excel(change=many_sheets)))


def test_what_was_recognised_is_said(tmp_path):
    said = []
    with told_of_reading(said.append):
        read(put(tmp_path, "plain.csv", spreadsheets.PLAIN))
        assert said == []
        read(put(tmp_path, "german.csv", spreadsheets.GERMAN))
    assert "german.csv was read with semicolons between columns and decimal commas in 'weight'." in said[0]
    assert said[1:] == ["Dates in 'since' were read with the day first."]


def test_a_sample_tells_what_its_columns_are(tmp_path):
    rows = [
        f"{k:04d};{60 + k},5;{k % 28 + 1:02d}.03.2020;{'ja' if k % 3 else 'nein'};K{k % 3};0{k % 2}123"
        for k in range(30)
    ]
    path = put(tmp_path, "sample.csv", "id;weight;since;smoker;ward;code\n" + "\n".join(rows))
    declared, words = declared_by(read_table(path), path, set())
    assert set(declared) == {"weight", "since", "smoker", "ward", "code"}  # ids all differ
    assert "left out" in words["id"]
    assert declared["weight"]["low"] > 50
    assert declared["since"]["first"] == "2020-03-01"
    assert declared["smoker"] == {"boolean": True}
    assert declared["code"]["categories"] == ["00123", "01123"]  # no number begins with 0
    path.write_text(path.read_text().replace("75,5", "1.075,5"))
    with pytest.raises(FileProblem, match=r"'weight': a separator of thousands.*line 17"):
        declared_by(read_table(path), path, set())


def test_a_sample_without_labels_says_that_they_are_to_be_set(tmp_path):
    path = put(
        tmp_path, "sample.csv", "age,left\n" + "\n".join(f"{20 + k},{'x' * (k % 2)}" for k in range(40))
    )
    text, words = sample_template(path, {"label.column": "left", "sellers.expected": 40})
    assert "set them" in words["left"]
    assert text.count("TO BE READ OVER") == 1  # beside the features, and no other table
    _, words = sample_template(path, {"label.column": "left", "label.values": ["no", "x"]})
    assert "left" not in words
    path.write_text("age,age\n1,2\n")
    with pytest.raises(FileProblem, match="expected column 'age' once"):
        sample_template(path)
