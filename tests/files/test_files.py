"""Files: whole or not at all, and clear words about what is wrong with one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from dpmarket import FileProblem, InvalidInput, files
from dpmarket.files import tables


def _leftovers(folder, *expected):
    return sorted(p.name for p in folder.iterdir() if p.name not in expected)


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.txt"
    files.write_bytes(target, b"old")

    def fail():
        with files.atomic_path(target) as temporary:
            temporary.write_bytes(b"half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_bytes() == b"old"
    assert _leftovers(tmp_path, "out.txt") == []


def test_a_killed_writer_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.bin"
    files.write_bytes(target, b"old")
    code = (
        "import sys\nfrom dpmarket.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as t:\n"
        "    f = open(t, 'wb')\n    print('writing', flush=True)\n"
        "    while True: f.write(b'x' * 1024)\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(target)], stdout=subprocess.PIPE)
    assert writer.stdout.readline() == b"writing\n"
    time.sleep(0.02)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    assert target.read_bytes() == b"old"


def test_an_existing_file_is_kept_unless_overwriting_is_meant(tmp_path):
    target = tmp_path / "out.json"
    files.write_json(target, {"a": 1}, overwrite=False)
    with pytest.raises(FileProblem, match="exists"):
        files.write_json(target, {"a": 2}, overwrite=False)

    def write_while_somebody_else_does():
        with files.atomic_path(tmp_path / "late", overwrite=False) as temporary:
            temporary.write_text("mine")
            (tmp_path / "late").write_text("somebody else's")

    with pytest.raises(FileProblem, match="exists"):
        write_while_somebody_else_does()
    assert (tmp_path / "late").read_text() == "somebody else's"
    assert files.read_json(target) == {"a": 1}
    files.write_json(target, {"a": 2})
    assert files.read_json(target) == {"a": 2}
    assert _leftovers(tmp_path, "out.json", "late") == []


@pytest.fixture
def usual_umask():
    old = os.umask(0o022)
    yield
    os.umask(old)


def _mode(path):
    return path.stat().st_mode & 0o777


@pytest.mark.usefixtures("usual_umask")
def test_a_replaced_file_and_the_temporary_one_are_open_to_nobody_new(tmp_path):
    target = tmp_path / "out"
    for old, meanwhile in ((None, 0o644), (0o640, 0o600), (0o600, 0o600)):
        if old is not None:
            os.chmod(target, old)
        with files.atomic_path(target) as temporary:
            assert _mode(temporary) == meanwhile
        assert _mode(target) == (0o644 if old is None else old)


@pytest.mark.usefixtures("usual_umask")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.bin"])
def test_confidential_files_are_their_owners_even_if_an_old_one_was_not(tmp_path, name):
    path = tmp_path / name
    for _ in range(2):
        if name == "t.bin":
            files.private_bytes(path, b"secret", overwrite=True)
        else:
            files.write_table(path, pl.DataFrame({"who": ["a"]}))
        assert _mode(path) == 0o600
        os.chmod(path, 0o644)
    with pytest.raises(FileProblem, match="exists"):
        files.private_bytes(path, b"secret")


@pytest.mark.usefixtures("usual_umask")
def test_a_folder_of_files_is_its_owners_and_on_the_disk_before_it_appears(tmp_path, monkeypatch):
    synced, sync = set(), os.fsync

    def note(descriptor):
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    folder = tmp_path / "receipts"
    files.write_folder(folder, [("1.json", b"one"), ("2.json", b"two")])
    assert _mode(folder) == 0o700
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"1.json": b"one", "2.json": b"two"}
    assert all(_mode(path) == 0o600 for path in folder.iterdir())
    assert {path.stat().st_ino for path in (folder, *folder.iterdir())} <= synced


def test_an_output_that_is_an_input_is_refused_under_every_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").touch()
    (tmp_path / "link.csv").symlink_to("data.csv")
    os.link("data.csv", "hard.csv")
    for output in ("./data.csv", tmp_path / "data.csv", "link.csv", "hard.csv"):
        with pytest.raises(FileProblem, match="still needed"):
            files.refuse_same(output, "-", "market.toml", "data.csv")
    with pytest.raises(FileProblem, match="still needed"):
        files.refuse_same(tmp_path / "not there yet", "not there yet")
    files.refuse_same("-", "-", "data.csv")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_read_back_to_the_same_bits(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    x = np.random.default_rng(0).lognormal(0, 30, 1000)
    ids = [f"søren {k}" for k in range(1000)]
    files.write_table(path, pl.DataFrame({"id": ids, "x": x}))
    table = files.read_table(path, ["x", "id"])
    assert files.number_column(table, "x", path).tobytes() == x.tobytes()
    assert table.get_column("id").to_list() == ids


def test_texts_stay_as_they_stand_in_the_file_and_missing_columns_may_be_allowed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("id,x\n007,1\n7,2\n010,3\n")
    table = files.read_table(path, ["id", "x", "more"], ["id"], ["x"], if_there=["more"])
    assert table.get_column("id").to_list() == ["007", "7", "010"]
    assert table.columns == ["id", "x"]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [([b"s3cret\xff", b"b"], "Binary"), ([["s3cret"], ["b"]], "List"), ([{"a": 1}] * 2, "Struct")],
)
def test_a_column_of_a_type_that_is_no_text_is_named_and_never_shown(tmp_path, cells, kind):
    path = tmp_path / "t.parquet"
    files.write_table(path, pl.DataFrame({"who": cells, "x": [1.0, 2.0]}))
    with pytest.raises(FileProblem, match=f"column 'who' of .*expected text .*{kind}") as refusal:
        files.read_table(path, ["who", "x"], ["who"], ["x"])
    assert "s3cret" not in str(refusal.value)


@pytest.mark.parametrize(("before", "line"), [(1, 3), (5000, 5002)])
def test_a_cell_that_is_no_number_is_named_by_line_and_never_shown(tmp_path, before, line):
    path = tmp_path / "t.csv"
    path.write_text("cost\n" + "1\n" * before + "secret\n3\n\n")
    with pytest.raises(FileProblem, match=f"no number in 1 row: line {line}") as refusal:
        files.number_column(files.read_table(path), "cost", path)
    assert "secret" not in str(refusal.value)


def test_json_has_no_nan_and_keeps_every_bit():
    with pytest.raises(InvalidInput, match="NaN"):
        files.to_json({"x": float("nan")})
    x = 0.1 + 0.2
    assert f"{x!r}" in files.to_json({"x": x})


@pytest.mark.parametrize(("start", "end"), [("", "\n"), ("\ufeff", "\r\n")])
@pytest.mark.parametrize("header", ["who,cost", '"who","two\nlines",cost', "who,,cost"])
def test_the_header_of_a_long_file_is_read_as_that_of_a_short_one(tmp_path, monkeypatch, start, end, header):
    row = "a" + "," * (header.count(",") - 1) + ",1.5" + end
    (tmp_path / "t.csv").write_bytes((start + header + end + row * 20_000).encode())
    names = files.column_names(tmp_path / "t.csv")
    table = files.read_table(tmp_path / "t.csv", ["who", "cost"], ["who"], ["cost"])
    monkeypatch.setattr(tables, "_HEAD", 1 << 30)  # no file is long
    assert names == files.column_names(tmp_path / "t.csv")
    assert names[0] == "who"
    assert table.equals(files.read_table(tmp_path / "t.csv", ["who", "cost"], ["who"], ["cost"]))
    assert table.height == 20_000


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "-"])
def test_a_table_is_seen_when_the_block_has_succeeded_and_not_before(tmp_path, capfdbinary, name):
    target = name if name == "-" else tmp_path / name

    def seen():
        return (
            capfdbinary.readouterr().out
            if name == "-"
            else b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.name == name)
        )

    with pytest.raises(ZeroDivisionError), files.writing_table(target, pl.DataFrame({"who": ["a"]})):
        raise ZeroDivisionError
    assert seen() == b""
    assert _leftovers(tmp_path) == []
    with files.writing_table(target, pl.DataFrame({"who": ["a"]})):
        assert seen() == b""
    assert seen() != b""
    assert _leftovers(tmp_path, name) == []


@pytest.mark.parametrize(
    ("texts", "dates", "is_day_first"),
    [
        (["2020-12-31", None, "2019-01-02"], ["2020-12-31", None, "2019-01-02"], False),
        (["31.12.2020", "01.02.2020", None], ["2020-12-31", "2020-02-01", None], True),
        (["31/12/2020", "01/02/2020"], ["2020-12-31", "2020-02-01"], True),
        (["01/02/2020", "03/04/2020"], [None, None], False),  # the month may come first
        (["12/31/2020", "01/02/2020"], [None, None], False),  # it does
        (["31.12.2020", "2020-12-31"], [None, "2020-12-31"], False),  # two forms in one column
        ([None, None], [None, None], False),
    ],
)
def test_dates_are_read_day_first_only_where_the_month_cannot_come_first(texts, dates, is_day_first):
    found, first = files.dates_of(pl.Series(texts, dtype=pl.String))
    assert [one and str(one) for one in found.to_list()] == dates
    assert first == is_day_first


@pytest.mark.parametrize("kind", [pl.Int64, pl.Int32, pl.Float64, pl.Float32, pl.String])
def test_an_id_of_a_whole_number_is_the_same_text_from_every_type_of_parquet(tmp_path, kind):
    """pandas makes floats of whole numbers with a gap: else one person would be two, each with a budget."""
    path = tmp_path / "t.parquet"
    pl.DataFrame({"id": pl.Series([7, None, 12], dtype=pl.Int64).cast(kind)}).write_parquet(path)
    assert files.read_table(path, ["id"], ["id"])["id"].to_list() == ["7", None, "12"]
    odd = pl.Series([0.5, float("nan"), -3.0])
    pl.DataFrame({"id": odd}).write_parquet(path)
    assert files.read_table(path, ["id"], ["id"])["id"].to_list() == ["0.5", "NaN", "-3"]
