"""Files: whole or not at all, and clear words about what is wrong with one."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from dpmarket import FileProblem, InvalidInput, files


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


def test_readers_never_see_half_a_file(tmp_path):
    target = tmp_path / "out.bin"
    versions = (b"a" * 200_000, b"b" * 300_000)
    files.write_bytes(target, versions[0])
    code = (
        "import sys\nfrom dpmarket.files import write_bytes\n"
        "for k in range(60): write_bytes(sys.argv[1], (b'a' * 200000, b'b' * 300000)[k % 2])\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(target)])
    seen = set()
    while writer.poll() is None:
        data = target.read_bytes()
        assert data in versions
        seen.add(data)
    assert writer.returncode == 0
    assert len(seen) == 2


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


def test_permissions_of_a_replaced_file_are_kept(tmp_path):
    target = tmp_path / "out"
    files.write_bytes(target, b"1")
    os.chmod(target, 0o640)
    files.write_bytes(target, b"2")
    assert target.stat().st_mode & 0o777 == 0o640


def test_folders_that_are_missing_or_in_the_way_are_named(tmp_path):
    with pytest.raises(FileProblem, match="does not exist"):
        files.write_bytes(tmp_path / "no" / "file", b"")
    with pytest.raises(FileProblem, match="is a folder"):
        files.write_bytes(tmp_path, b"")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_numbers_read_back_to_the_same_bits(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    x = np.random.default_rng(0).lognormal(0, 30, 1000)
    ids = [f"søren {k}" for k in range(1000)]
    files.write_table(path, {"id": ids, "x": x})
    table = files.read_table(path, ["x", "id"])
    assert files.number_column(table, "x", path).tobytes() == x.tobytes()
    assert files.text_column(table, "id") == ids


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.csv", None, "no such file"),
        ("t.xlsx", b"x", "ending in .csv or .parquet"),
        ("t.csv", b"", "empty"),
        ("t.csv", b"cost,b\n", "no rows"),
        ("t.csv", b"a,b\n1,2,3\n", "cannot understand"),
        ("t.csv", b"a\n\xff\xfe\n", "cannot understand"),
        ("t.parquet", b"not parquet", "cannot understand"),
        ("t.csv", b"a,b\n1,2\n", "cannot find 'cost' .*columns are 'a', 'b'"),
    ],
)
def test_tables_that_cannot_be_used_say_why(tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FileProblem, match=words):
        files.read_table(path, ["cost"])


def test_a_cell_that_is_no_number_is_named_by_line_and_never_shown(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cost\n1\nsecret\n3\n,\n".replace(",\n", "\n"))
    with pytest.raises(FileProblem, match="no number in 1 row: line 3") as refusal:
        files.number_column(files.read_table(path), "cost", path)
    assert "secret" not in str(refusal.value)


def test_a_huge_number_of_rows_of_text_after_numbers_is_still_seen(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("cost\n" + "1\n" * 5000 + "x\n")
    with pytest.raises(FileProblem, match="no number in 1 row: line 5002"):
        files.number_column(files.read_table(path), "cost", path)


def test_columns_of_different_lengths_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="equal length"):
        files.write_table(tmp_path / "t.csv", {"a": [1], "b": [1, 2]})


def test_documents_that_are_broken_say_where(tmp_path):
    (tmp_path / "a.json").write_text('{"a": \n oops}')
    with pytest.raises(FileProblem, match="line 2"):
        files.read_json(tmp_path / "a.json")
    (tmp_path / "a.toml").write_text("a = \n")
    with pytest.raises(FileProblem, match=r"TOML.*line 1"):
        files.read_toml(tmp_path / "a.toml")
    (tmp_path / "a.json").write_bytes(b"\xff")
    with pytest.raises(FileProblem, match="UTF-8"):
        files.read_json(tmp_path / "a.json")
    with pytest.raises(FileProblem, match="no such file"):
        files.read_json(tmp_path / "b.json")
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfa = 1\n")
    assert files.read_toml(tmp_path / "bom.toml") == {"a": 1}


def test_json_has_no_nan_and_keeps_every_bit():
    with pytest.raises(InvalidInput, match="NaN"):
        files.to_json({"x": float("nan")})
    x = 0.1 + 0.2
    assert f"{x!r}" in files.to_json({"x": x})
