"""Rows divided by person: nobody in two files, nothing lost, nothing changed."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.partitions import repartition
from dpmarket.partitions.hashed import misplaced
from dpmarket.partitions.pieces import parts_of


def tables(folder, ending="parquet"):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    made = []
    for k in range(3):
        people = rng.integers(0, 40, 50)
        table = pl.DataFrame({"id": [f"p{one}" for one in people], "x": rng.normal(size=50), "file": k})
        (table.write_csv if ending == "csv" else table.write_parquet)(folder / f"{k}.{ending}")
        made.append(table)
    return pl.concat(made)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_every_row_is_in_one_file_and_every_person_too(tmp_path, ending):
    whole = tables(tmp_path / "in", ending)
    done = repartition(f"{tmp_path / 'in'}/*.{ending}", tmp_path / "out", 4)
    parts = [pl.read_parquet(path) for path in sorted((tmp_path / "out").iterdir())]
    assert tuple(part.height for part in parts) == done.rows
    found = pl.concat(parts)
    expected = whole if ending == "parquet" else whole.cast(pl.String)
    assert found.sort("id", "x").equals(expected.sort("id", "x"))
    owners = [set(part["id"]) for part in parts]
    assert sum(map(len, owners)) == len(set().union(*owners))
    for number, part in enumerate(parts):
        assert not misplaced(part, "id", (number, 4))
        assert misplaced(part, "id", ((number + 1) % 4, 4))
        assert (tmp_path / "out").stat().st_mode & 0o077 == 0


def test_the_hash_is_fixed_and_the_same_for_every_way_to_write_a_letter():
    ids = pl.DataFrame({"id": ["a", "b", "Zo\u00eb", "Zoe\u0308"]})
    assert parts_of(ids, "id", 1000).tolist() == [867, 733, 195, 195]


def test_problems_of_all_files_are_told_and_nothing_is_written(tmp_path):
    tables(tmp_path / "in")
    for k in (0, 2):
        path = tmp_path / "in" / f"{k}.parquet"
        table = pl.read_parquet(path)
        table[k + 3, "id"] = ""
        table.write_parquet(path)
    with pytest.raises(FileProblem) as refused:
        repartition(f"{tmp_path / 'in'}/*.parquet", tmp_path / "out", 2)
    assert [detail.split(": ", 1)[1] for detail in refused.value.details] == [
        "column 'id': no person's id in 1 row: row 4.",
        "column 'id': no person's id in 1 row: row 6.",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]


def test_files_of_other_columns_and_numbers_of_partitions_are_refused(tmp_path):
    tables(tmp_path / "in")
    pl.DataFrame({"id": ["a"], "y": [1]}).write_parquet(tmp_path / "in" / "3.parquet")
    with pytest.raises(FileProblem, match="the same columns"):
        repartition(f"{tmp_path / 'in'}/*.parquet", tmp_path / "out", 2)
    for count in (0, 100_000):
        with pytest.raises(InvalidInput, match="partitions"):
            repartition(f"{tmp_path / 'in'}/0.parquet", tmp_path / "out", count)
