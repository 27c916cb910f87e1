"""A stranger's files are refused in one line, soon and within little memory, or read as what they are."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpmarket.campaign.file_quotes import quote_file
from dpmarket.campaign.rules.released import read_model
from dpmarket.campaign.rules.rules_file import check_rules, read_rules
from dpmarket.errors import DpmarketError, FileProblem, InvalidInput
from dpmarket.files import number_column, parse_json, parse_toml, read_json, read_table, read_toml
from dpmarket.files.parquet_size import parquet_size
from support import hostile
from support.campaigns import make_campaign

MEGABYTES = 100


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
    with pytest.raises(FileProblem, match=r"rules\.toml") as found:
        read_toml(tmp_path / "rules.toml")
    assert len(str(found.value)) < 300
    with pytest.raises(FileProblem):
        read_rules(tmp_path / "rules.toml")


def test_strings_comments_and_numbers_with_many_dots_are_no_long_keys():
    text = '\n'.join(
        [
            "# " + "." * 100,
            'a = "' + "[{." * 100 + '"  # ' + "[." * 100,
            "b = '" + "." * 100 + "'",
            'c = """\n' + "[[[.\n" * 100 + '"""',
            "d = '''\n" + "{{{.\n" * 100 + "'''",
            "e = [" + ", ".join(["1.5"] * 500) + "]",
            'f."x.y.z".g = 2.5',
            '"q\\"[[." = 1',
        ]
    )  # fmt: skip
    found = parse_toml(text.encode())
    assert found["e"] == [1.5] * 500
    assert found["f"] == {"x.y.z": {"g": 2.5}}
    assert found["c"].count(".") == found["d"].count(".") == 100


def test_json_as_deep_and_long_as_honest_files_is_read():
    assert parse_json(b"[" * 60 + b"]" * 60)
    assert parse_json(str(10**299)) == 10**299
    assert parse_json(b'"' + b"[" * 1000 + b'"') == "[" * 1000
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}


@settings(max_examples=300)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_whatever_bytes_come_parsers_give_plain_data_or_say_no(data):
    for parse in (parse_json, parse_toml):
        assert "\n" not in refusal_of(InvalidInput, parse, data)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200)
@given(JSON_VALUES)
def test_json_that_python_writes_is_read_to_the_same(value):
    assert parse_json(json.dumps(value)) == value


@settings(max_examples=200)
@given(JSON_VALUES, st.sampled_from(["market", "model"]))
def test_whatever_a_file_says_a_market_or_model_is_read_or_refused(tmp_path_factory, value, kind):
    path = tmp_path_factory.mktemp("file") / "file.json"
    if kind == "model":
        path.write_text(json.dumps({"schema": "dpmarket.model/7", "x": value}))
        with pytest.raises(FileProblem):
            read_model(path)
    else:
        with pytest.raises(DpmarketError):
            check_rules(value if isinstance(value, dict) else {"costs": value})


# --- tables ---


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    made = hostile.tables()
    assert tuple(made) == hostile.TABLES
    for name, data in made.items():
        (folder / name).write_bytes(data)
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


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize("count", [2_000_000_000, -1])
def test_a_page_that_lies_about_its_values_is_refused(count):
    """polars would set aside memory for as many, or for two to the power of 61, and end the process."""
    zigzag = (count << 1) ^ (count >> 63)
    varint = b""
    zigzag &= (1 << 32) - 1
    while zigzag >= 128:
        varint += bytes([zigzag & 127 | 128])
        zigzag >>= 7
    varint += bytes([zigzag])
    honest = bytes([0x15, 80])  # field 1 of a page's header: 40 values
    place = SMALL.index(honest, 4)
    with pytest.raises(InvalidInput):
        parquet_size(SMALL[:place] + b"\x15" + varint + SMALL[place + 2 :])
    assert parquet_size(SMALL).rows == 40


# --- commands, each in a process of its own ---

COMMAND = Path(sys.executable).with_name("dpmarket")


# A small process between: what a process may take at most counts from what its parent takes.
LAUNCH = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
said = done.stdout.decode(errors="replace")
print(json.dumps([done.returncode, said, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def run(folder, *arguments):
    """Run a command; return its exit code, what it said, its CPU seconds and its peak memory in megabytes."""
    launch = [sys.executable, "-S", "-c", LAUNCH, COMMAND, *map(str, arguments)]
    return json.loads(subprocess.run(launch, capture_output=True, cwd=folder, check=True).stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a campaign."""
    folder = tmp_path_factory.mktemp("campaign")
    make_campaign(folder)
    quote_file(folder / "rules.toml", folder / "reports.csv", folder / "quotes.csv")
    return folder


@pytest.fixture(scope="module")
def usual(folder):
    """Return what good small files take: CPU seconds and megabytes."""
    good = [
        run(folder, "show", "quotes.csv"),
        run(folder, "costs", "fit", "reports.csv", "-o", "fitted.json"),
        run(folder, "quote", "reports.csv", "-o", "again.csv"),
    ]
    assert [code for code, *_ in good] == [0] * 3, good
    return max(cpu for _, _, cpu, _ in good), max(memory for *_, memory in good)


def refused(folder, usual, arguments, path):
    code, said, cpu, memory = run(folder, *(part.format(path) for part in arguments))
    lines = [line for line in said.splitlines() if line.strip()]
    assert code == 1, said[:500]
    assert "Traceback" not in said
    assert cpu <= usual[0] + 1.0, (arguments, path.name, cpu, usual)
    assert memory <= usual[1] + MEGABYTES, (arguments, path.name, memory, usual)
    assert len(lines) <= 12
    assert max(map(len, lines)) < 600


TABLE_COMMANDS = {
    "quote": ("quote", "{}", "-o", "new.csv"),
    "train": ("train", "{}", "-o", "new.json"),
    "withdraw": ("withdraw", "--absent-from", "{}"),
    "show": ("show", "{}"),
    "costs fit": ("costs", "fit", "{}", "-o", "new.json"),
    "audit participation": ("audit", "participation", "{}", "quotes.csv"),
}
LARGE = ("many rows.parquet", "shared text.parquet", "gzip.csv", "a million columns.csv")
QUICK = [("quote", "many rows.parquet"), ("train", "gzip.csv"), ("quote", "shared text.parquet")]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        pytest.param(command, name, marks=() if (command, name) in QUICK else pytest.mark.slow)
        for command in TABLE_COMMANDS
        for name in LARGE
    ],
)
def test_a_hostile_table_is_refused_by_every_command_soon_and_in_little_memory(
    folder, usual, tables, command, name
):
    refused(folder, usual, TABLE_COMMANDS[command], tables / name)
