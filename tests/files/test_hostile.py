"""A stranger's files are refused in one line, soon and within little memory, or read as what they are."""

import io
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpmarket.campaign.rules.rules_file import read_rules
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import number_column, parse_json, parse_toml, read_json, read_table, read_toml
from dpmarket.files.untrusted import parquet_size
from support import hostile

LARGE = ("many rows.parquet", "shared text.parquet", "gzip.csv", "a million columns.csv")


def refusal_of(kind, call, *arguments):
    """Return what a refusal of this kind says, or nothing if there is none."""
    try:
        call(*arguments)
    except kind as problem:
        return str(problem)
    return ""


def read_costs(path):
    """Read sellers and costs, and refuse cells that are no numbers."""
    number_column(read_table(path, ["seller", "cost"], ["seller"], ["cost"]), "cost", path)


# --- text ---


@pytest.mark.parametrize("data", hostile.JSON.values(), ids=hostile.JSON)
def test_json_that_asks_for_too_much_is_refused(tmp_path, data):
    with pytest.raises(InvalidInput):
        parse_json(data)
    (tmp_path / "file.json").write_bytes(data)
    with pytest.raises(FileProblem, match=r"file\.json as JSON") as found:
        read_json(tmp_path / "file.json")
    assert len(str(found.value)) < 300


@pytest.mark.parametrize("data", hostile.TOML.values(), ids=hostile.TOML)
def test_toml_that_asks_for_too_much_is_refused(tmp_path, data):
    (tmp_path / "rules.toml").write_bytes(data)
    started = time.process_time()
    with pytest.raises(FileProblem, match=r"rules\.toml") as found:
        read_toml(tmp_path / "rules.toml")
    assert time.process_time() - started < 2.0
    assert len(str(found.value)) < 300
    with pytest.raises(FileProblem):
        read_rules(tmp_path / "rules.toml")


def test_strings_comments_and_numbers_with_many_dots_are_no_long_keys():
    dots = "[{." * 100
    lines = [f"# {dots}", f'a = "{dots}"  # {dots}', f"b = '{dots}'", f'c = """\n{dots}\n"""']
    lines += ["e = [" + ", ".join(["1.5"] * 500) + "]", 'f."x.y.z".g = 2.5', '"q\\"[[." = 1']
    found = parse_toml("\n".join(lines).encode())
    assert found["e"] == [1.5] * 500
    assert found["f"] == {"x.y.z": {"g": 2.5}}
    assert found["a"] == found["b"] == found["c"].strip() == dots


@pytest.mark.parametrize("text", ['"' + '\\"' * 100_000 + '"', '"a\\"' * 50_000, "'\\\"" * 60_000])
def test_texts_of_many_quotes_are_looked_through_once(text):
    started = time.process_time()
    refusal_of(InvalidInput, parse_toml, f"a = {text}".encode())
    assert time.process_time() - started < 2.0


def test_json_as_deep_and_long_as_honest_files_is_read():
    assert parse_json(b"[" * 60 + b"]" * 60)
    assert parse_json(str(10**299)) == 10**299
    assert parse_json(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@settings(max_examples=100)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_bytes_come_parsers_give_plain_data_or_say_no(data):
    for parse in (parse_json, parse_toml):
        assert "\n" not in refusal_of(InvalidInput, parse, data)


# --- tables ---


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, make in hostile.TABLES.items():
        (folder / name).write_bytes(make())
    return folder


@pytest.mark.parametrize("name", hostile.TABLES)
def test_tables_that_would_become_too_large_or_are_none_are_refused(tables, name):
    started = time.process_time()
    said = refusal_of(FileProblem, read_costs, tables / name)
    assert time.process_time() - started < 2.0
    assert said.startswith("cannot")
    assert len(said) < 400


def test_the_size_of_a_parquet_file_is_that_of_its_values():
    rows = 10_000
    data = hostile.parquet({"seller": [f"s{k}" for k in range(rows)], "cost": np.arange(rows) * 0.5})
    found = parquet_size(data)
    assert (found.rows, found.columns) == (rows, 2)
    # Eight bytes a number; sixteen and the text itself a text.
    assert 8 * rows + 16 * rows <= found.unpacked <= 8 * rows + 16 * rows + 20 * rows


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "lz4", "zstd", "brotli"])
def test_honest_parquet_is_read_whoever_compressed_it(tmp_path, compression):
    columns = {"seller": [f"s{k}" for k in range(500)], "cost": np.linspace(0, 1, 500)}
    table = pl.DataFrame({**columns, "label": ["no", "yes"] * 250})
    table.write_parquet(tmp_path / "t.parquet", compression=compression, row_group_size=100)
    assert read_table(tmp_path / "t.parquet").equals(table)


def test_nothing_and_lists_and_missing_values_are_sized_without_a_complaint():
    lists, missing = {"a": [[1, 2], []], "b": [{"x": 1}, {"x": None}]}, {"a": [None, "x"], "b": [True, None]}
    for columns in (lists, missing, {"a": []}):
        buffer = io.BytesIO()
        pl.DataFrame(columns).write_parquet(buffer)
        assert parquet_size(buffer.getvalue()).rows == len(columns["a"])


def test_lists_within_lists_without_end_are_no_parquet():
    footer = b"\x19" * 100_000  # field 1 is a list of one list of one list ...
    with pytest.raises(InvalidInput, match="damaged"):
        parquet_size(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_a_damaged_parquet_file_is_read_or_refused_and_no_cell_is_shown(capfd, tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("damaged") / "t.parquet"
    data = bytearray(SMALL)
    for place, byte in changes:
        data[place % len(data)] = byte
    path.write_bytes(data)
    assert "s17" not in refusal_of(FileProblem, read_costs, path)
    assert "s17" not in capfd.readouterr().err  # polars may note where it gave up, not on what


SMALL = hostile.parquet({"seller": [f"s{k}" for k in range(40)], "cost": np.arange(40) * 0.5})


@pytest.mark.parametrize("lie", [b"\x80\xd0\xac\xf3\x0e", b"\x01"], ids=["2,000,000,000", "-1"])
def test_a_page_that_lies_about_its_values_is_refused(lie):
    """polars would set aside memory for as many, or for two to the power of 61, and end the process."""
    honest = bytes([0x15, 80])  # field 1 of a page's header: 40 values
    place = SMALL.index(honest, 4)
    with pytest.raises(InvalidInput):
        parquet_size(SMALL[:place] + b"\x15" + lie + SMALL[place + 2 :])
    assert parquet_size(SMALL).rows == 40


MEASURED = """
import resource, sys
from dpmarket.errors import FileProblem
from dpmarket.files import read_table

def read(path):
    read_table(path, ["seller", "cost"], ["seller"], ["cost"])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

usual = read(sys.argv[1])
for path in sys.argv[2:]:
    try:
        read(path)
    except FileProblem:
        print("refused")
print(read(sys.argv[1]) - usual)
"""


def test_a_hostile_table_is_refused_in_little_memory(tables):
    (tables / "good.parquet").write_bytes(SMALL)
    command = [sys.executable, "-c", MEASURED, tables / "good.parquet", *(tables / one for one in LARGE)]
    *said, megabytes = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    assert said == ["refused"] * len(LARGE)
    assert int(megabytes) < 100
