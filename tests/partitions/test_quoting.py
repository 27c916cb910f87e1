"""Quoting partitions: the same quotes for every division, order and engine; nothing written on a refusal."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dpmarket import BuyerObjective, OfflineMechanism, Uniform
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.partitions import (
    Processes,
    Threads,
    TooClose,
    kept,
    looking,
    passes,
    quote_partitions,
    quoting,
)
from support.partitioned import COSTS, MECHANISM, divided


def everybody(folder):
    """Return all quotes in one order."""
    return pl.concat([pl.read_parquet(path) for path in sorted(folder.glob("*.parquet"))]).sort("id")


class Fleeting:
    """An engine that does not say that its workers last from one map to the next."""

    def map(self, function, items, done=lambda: None):
        return Threads(2).map(function, items, done)


@pytest.mark.parametrize("most_gathered", [0, 1 << 21])
def test_any_partitioning_order_and_engine_gives_the_same_quotes_to_the_last_bit(
    tmp_path, monkeypatch, most_gathered
):
    rng = np.random.default_rng(4)
    found, results = [], []
    half = COSTS.size * 20
    ways = [
        (1, "parquet", None, Threads.keeps),
        (3, "csv", Threads(1), Threads.keeps),
        (7, "parquet", Threads(3), half),
        (4, "csv", Fleeting(), Threads.keeps),
    ]
    for k, (parts, ending, engine, most_kept) in enumerate(ways):
        monkeypatch.setattr(Threads, "keeps", most_kept)
        pattern = divided(tmp_path / f"in{k}", rng, parts, ending=ending)
        out = tmp_path / f"out{k}"
        results.append(quote_partitions(pattern, out, MECHANISM, engine=engine, most_gathered=most_gathered))
        found.append(everybody(out))
    assert all(found[0].equals(other) for other in found[1:])
    same = ("total_promise", "cutoff", "promised", "total_payment", "n_bought", "n_capped", "sellers")
    assert len({tuple(getattr(result, name) for name in same) for result in results}) == 1
    assert [result.passes for result in results] == [3, 3, 3, 3]


@pytest.mark.parametrize("most_gathered", [0, 1 << 21])
def test_quotes_are_memorys(tmp_path, most_gathered):
    pattern = divided(tmp_path / "in", np.random.default_rng(5), 4)
    result = quote_partitions(pattern, tmp_path / "out", MECHANISM, most_gathered=most_gathered)
    memory = MECHANISM.run(COSTS, [f"seller-{k}" for k in range(COSTS.size)])
    expected = pl.DataFrame(
        {"id": list(memory.seller_ids), "epsilon": memory.epsilons, "payment": memory.payments}
    ).sort("id")
    found = everybody(tmp_path / "out")
    assert np.array_equal(found["epsilon"], expected["epsilon"])
    np.testing.assert_allclose(found["payment"], expected["payment"], rtol=1e-10)
    assert result.total_promise == memory.planned_noise_rate
    assert result.cutoff == memory.optimality.cutoff
    assert result.n_bought == int((memory.epsilons > 0.0).sum())


@pytest.mark.slow
def test_processes_give_the_same_digests_as_threads(tmp_path):
    pattern = divided(tmp_path / "in", np.random.default_rng(6), 2, COSTS[:500])
    digests = [
        quote_partitions(pattern, tmp_path / name, MECHANISM, engine=engine).digests
        for name, engine in (("one", Threads(2)), ("other", Processes(1)))
    ]
    assert digests[0] == digests[1]


def test_the_folder_is_confidential_and_says_what_is_in_it(tmp_path):
    pattern = divided(tmp_path / "in", np.random.default_rng(7), 3, COSTS[:60])
    result = quote_partitions(pattern, tmp_path / "out", MECHANISM)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert [part["sha256"] for part in manifest["partitions"]] == list(result.digests)
    assert sum(part["rows"] for part in manifest["partitions"]) == 60
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"manifest.json", "hashes", "part-0.parquet", "part-1.parquet", "part-2.parquet"}
    for path in [tmp_path / "out", *(tmp_path / "out").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def refused(tmp_path, pattern, match, **options):
    """Return the refusal; nothing was written."""
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(FileProblem, match=match) as problem:
        quote_partitions(pattern, tmp_path / "out", MECHANISM, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    return problem.value


def test_all_problems_of_all_partitions_are_told_without_a_value(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,cost\nann,1.25\nbob,-7.75\nann,2.5\n")
    (folder / "b.csv").write_text("id,cost\ncid,2.0\n")
    (folder / "c.csv").write_text('id,cost\n,3.125\ndan,"eleven"\n')
    (folder / "d.csv").write_text("id,price\neve,3.5\n")
    problem = refused(tmp_path, f"{folder}/*.csv", "3 of 4 partitions; nothing was written")
    told = " ".join(problem.details)
    assert "a.csv: column 'cost': a cost below 0 in 1 row: line 3" in told
    assert "a.csv: column 'id': a seller id that an earlier row has already in 1 row: line 4" in told
    assert "c.csv: column 'id': no seller id in 1 row: line 2" in told
    assert "c.csv: column 'cost': no number in 1 row: line 3" in told
    assert "d.csv" in told
    assert not any(value in str(problem) for value in ("bob", "7.75", "eleven", "3.125"))


def test_a_seller_in_two_partitions_is_refused_with_file_and_line(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,cost\nann,1.25\nbob,1.75\n")
    (folder / "b.csv").write_text("id,cost\ncid,2.0\nbob,2.25\n")
    pl.DataFrame({"id": ["dan", "ann"], "cost": [1.0, 2.0]}).write_parquet(folder / "c.parquet")
    problem = refused(tmp_path, f"{folder}/*", "2 of 3 partitions")
    first, second = problem.details
    assert first.endswith(
        "b.csv: column 'id': a seller id that another partition has already in 1 row: line 3."
    )
    assert second.endswith(
        "c.parquet: column 'id': a seller id that another partition has already in 1 row: row 2."
    )


def test_one_id_in_two_forms_of_unicode_is_one_seller(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("id,cost\nZoe\u0308,1.25\n", encoding="utf-8")
    (folder / "b.csv").write_text("id,cost\nZo\u00eb,2.0\n bob,2.0\n", encoding="utf-8")
    assert "blanks" in refused(tmp_path, f"{folder}/*", "1 of 2 partitions").details[0]
    (folder / "b.csv").write_text("id,cost\nZo\u00eb,2.0\n", encoding="utf-8")
    assert "line 2" in refused(tmp_path, f"{folder}/*", "1 of 2 partitions").details[0]


def test_ids_whose_hashes_alone_are_equal_are_two_sellers(tmp_path, monkeypatch):
    def same(table, column):
        return np.zeros(table.height, dtype=np.uint64), True

    monkeypatch.setattr(passes, "hashes_and_look", same)
    monkeypatch.setattr("dpmarket.partitions.ids.hashes_of", lambda *table: same(*table)[0])
    pattern = divided(tmp_path / "in", np.random.default_rng(8), 3, COSTS[:40])
    assert quote_partitions(pattern, tmp_path / "out", MECHANISM).sellers == 40


@pytest.mark.parametrize("column", ["id", "cost"])
def test_reports_that_change_between_passes_are_refused(tmp_path, monkeypatch, column):
    """Also where only people changed places: whoever is left out stands in a row."""
    pattern = divided(tmp_path / "in", np.random.default_rng(9), 2, COSTS[:400])
    decide = quoting._decide

    def change(*arguments):
        market = decide(*arguments)
        path = tmp_path / "in" / "part-1.parquet"
        table = pl.read_parquet(path)
        table.with_columns(table[column].reverse()).write_parquet(path)
        return market

    # Who has kept what was read quotes that, and looks at no file again.
    quote_partitions(pattern, tmp_path / "before", MECHANISM)
    with monkeypatch.context() as patch:
        patch.setattr(quoting, "_decide", change)
        quote_partitions(pattern, tmp_path / "kept", MECHANISM)
        assert everybody(tmp_path / "kept").equals(everybody(tmp_path / "before"))
        change_again = "part-1.parquet: it has changed while it was read"
        refused(tmp_path, pattern, change_again, engine=Fleeting())


@pytest.mark.parametrize("way", ["quoted", "refused", "killed"])
def test_nothing_is_kept_in_memory_when_quoting_ends(tmp_path, monkeypatch, way):
    pattern = divided(tmp_path / "in", np.random.default_rng(9), 3, COSTS[:400])
    seen = []

    def look(*arguments):
        seen.append(len(kept._kept))
        if way == "killed":
            raise KeyboardInterrupt
        return decide(*arguments)

    decide = quoting._decide
    monkeypatch.setattr(quoting, "_decide", look)
    if way == "refused":
        (tmp_path / "in" / "part-3.csv").write_text("id,cost\nalone,-1\n")
        refused(tmp_path, str(tmp_path / "in" / "*"), "cannot use 1 of 4 partitions")
    elif way == "killed":
        with pytest.raises(KeyboardInterrupt):
            quote_partitions(pattern, tmp_path / "out", MECHANISM)
    else:
        quote_partitions(pattern, tmp_path / "out", MECHANISM)
    assert seen == ([] if way == "refused" else [3])
    assert kept._kept == {}


def test_a_seller_in_two_partitions_goes_before_what_the_market_says(tmp_path):
    """Ids are compared while the driver decides: a market that says no must not hide that."""
    pattern = divided(tmp_path / "in", np.random.default_rng(9), 3, COSTS[:400])
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(0.0, 1.0, 0.01))
    with pytest.raises(TooClose):
        quote_partitions(pattern, tmp_path / "out", mechanism, most_gathered=0)
    twice = pl.read_parquet(tmp_path / "in" / "part-0.parquet")[:1]
    twice.write_parquet(tmp_path / "in" / "part-9.parquet")
    with pytest.raises(FileProblem, match="cannot use 1 of 4 partitions"):
        quote_partitions(pattern, tmp_path / "out", mechanism, most_gathered=0)
    assert os.listdir(tmp_path) == ["in"]


@pytest.mark.parametrize("keeps", [0, Threads.keeps])
def test_a_seller_who_stood_in_two_partitions_is_not_quoted_when_a_file_is_mended_meanwhile(tmp_path, keeps):
    pattern = divided(tmp_path / "in", np.random.default_rng(9), 2, COSTS[:400])
    mended = pl.read_parquet(tmp_path / "in" / "part-1.parquet")
    twice = pl.concat([pl.read_parquet(tmp_path / "in" / "part-0.parquet")[:1], mended])
    twice.write_parquet(tmp_path / "in" / "part-1.parquet")

    class Mending(Fleeting):
        def map(self, function, items, done=lambda: None):
            if function is passes.rows_of:
                mended.write_parquet(tmp_path / "in" / "part-1.parquet")
            return super().map(function, items, done)

        def everywhere(self, function, item):
            function(item)

    engine = Mending()
    engine.keeps = keeps
    match = "cannot use 1 of 2 partitions" if keeps else "has changed while it was read"
    refused(tmp_path, pattern, match, engine=engine)


def test_a_kept_table_is_quoted_only_if_it_is_the_one_that_was_counted(tmp_path, monkeypatch):
    pattern = divided(tmp_path / "in", np.random.default_rng(9), 2, COSTS[:400])
    expected = quote_partitions(pattern, tmp_path / "expected", MECHANISM).digests

    def older(name):
        found = take(name)
        return found._replace(table=found.table.reverse(), check=found.check ^ 1)

    take = kept.let_go
    monkeypatch.setattr(passes, "let_go", older)
    assert quote_partitions(pattern, tmp_path / "out", MECHANISM).digests == expected


def test_ids_are_compared_while_the_driver_goes_on():
    runner, go_on, seen = looking.Runner(Threads(1), lambda *_: None), threading.Event(), []
    runner.meanwhile(lambda aside: seen.append(go_on.wait(20)))
    assert not seen
    go_on.set()
    assert runner.map("next", abs, [-1]) == [1]
    assert seen == [True]


def test_a_disk_that_is_full_is_told_without_polars_words(tmp_path, monkeypatch):
    def full(*_):
        raise pl.exceptions.ComputeError("No space left on device")

    pattern = divided(tmp_path / "in", np.random.default_rng(9), 2, COSTS[:400])
    monkeypatch.setattr(passes, "write_parquet_to", full)
    refused(tmp_path, pattern, "cannot write .*parquet: is the disk full")


def test_as_much_is_kept_as_there_is_room_for_and_of_the_last_run(monkeypatch):
    table = pl.DataFrame({"id": ["a", "b"]})
    read = kept.Read(table, np.array([1.0, 2.0]), 7)
    monkeypatch.setattr(kept, "_kept", {})
    for name in ("/run/one/a.npy", "/run/one/b.npy", "/run/one/c.npy"):
        kept.keep(name, read, 2 * read.size)
    assert [kept.kept(f"/run/one/{name}.npy") is read for name in "abc"] == [True, True, False]
    kept.keep("/run/two/a.npy", read, 2 * read.size)  # what another run left makes room
    assert kept.kept("/run/one/a.npy") is None
    assert kept.let_go("/run/two/a.npy") is read
    assert kept.let_go("/run/two/a.npy") is None


def test_round_costs_that_change_places_are_noticed_wherever_they_stand():
    """They differ in a few bits of many: of 64-bit sums that mix them no two of thousands are equal."""
    rng = np.random.default_rng(10)
    ids = pl.Series(rng.integers(0, 2**63, 5000)).cast(pl.String)
    for pair in ((0.0, 2.0), (1.0, 1.5), (0.1, 0.2)):
        costs = rng.choice(pair, 5000)
        before = passes._check(ids, costs)
        for apart in (1, 2048, 4096):
            for row in range(0, 900, 3):
                swapped = costs.copy()
                swapped[[row, row + apart]] = costs[[row + apart, row]]
                same = costs[row] == costs[row + apart]
                assert (passes._check(ids, swapped) == before) == same


def test_a_task_that_fails_leaves_nothing_behind(tmp_path):
    class Dying:
        def map(self, function, items, done=lambda: None):
            if function is passes.write:
                raise KeyboardInterrupt
            return Threads(1).map(function, items, done)

    pattern = divided(tmp_path / "in", np.random.default_rng(10), 2, COSTS[:40])
    with pytest.raises(KeyboardInterrupt):
        quote_partitions(pattern, tmp_path / "out", MECHANISM, engine=Dying())
    assert os.listdir(tmp_path) == ["in"]


def test_what_a_worker_left_that_died_while_it_wrote_is_not_among_the_quotes(tmp_path):
    class Deadly:
        def map(self, function, items, done=lambda: None):
            if function is passes.write:
                for folder in (Path(items[0].place.quotes).parent, Path(items[0].place.hashes).parent):
                    (folder / ".part-0.parquet.0123456789ab.tmp").write_bytes(b"half of it")
            return Threads(1).map(function, items, done)

    pattern = divided(tmp_path / "in", np.random.default_rng(10), 1, COSTS[:40])
    quote_partitions(pattern, tmp_path / "out", MECHANISM, engine=Deadly())
    found = sorted(path.name for path in (tmp_path / "out").rglob("*"))
    assert found == ["hashes", "manifest.json", "part-0.npy", "part-0.parquet"]


def test_an_existing_folder_is_not_touched(tmp_path):
    (tmp_path / "out").mkdir()
    pattern = divided(tmp_path / "in", np.random.default_rng(11), 2, COSTS[:40])
    refused(tmp_path, pattern, "exists")


def test_partitions_of_one_name_are_refused(tmp_path):
    divided(tmp_path / "in", np.random.default_rng(12), 1, COSTS[:4])
    divided(tmp_path / "too", np.random.default_rng(12), 1, COSTS[:4])
    names = [tmp_path / "in" / "part-0.parquet", tmp_path / "too" / "part-0.parquet"]
    refused(tmp_path, names, "different names")


def test_a_market_that_windows_do_not_decide_is_refused_and_nothing_is_written(tmp_path):
    costs = np.concatenate(([1.0], np.full(100, 3.0)))
    pattern = divided(tmp_path / "in", np.random.default_rng(13), 2, costs)
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    with pytest.raises(TooClose):
        quote_partitions(pattern, tmp_path / "out", mechanism, most_gathered=0)
    assert os.listdir(tmp_path) == ["in"]
    assert quote_partitions(pattern, tmp_path / "out", mechanism).sellers == 101


def test_where_windows_do_not_decide_as_many_are_gathered_as_half_of_the_free_memory_holds(
    tmp_path, monkeypatch
):
    costs = np.concatenate(([1.0], np.full(100, 3.0)))
    pattern = divided(tmp_path / "in", np.random.default_rng(13), 2, costs)
    mechanism = OfflineMechanism(Uniform(1, 5), BuyerObjective(1.0, 1.0, 0.1))
    monkeypatch.setattr(quoting, "_FEW", 0)
    monkeypatch.setattr(quoting, "MOST_GATHERED", 50)
    assert quoting.free_memory() > 1 << 20
    monkeypatch.setattr(quoting, "free_memory", lambda: 100 * 200)
    with pytest.raises(TooClose, match="free memory"):
        quote_partitions(pattern, tmp_path / "out", mechanism)
    monkeypatch.setattr(quoting, "free_memory", lambda: 101 * 200)
    assert quote_partitions(pattern, tmp_path / "out", mechanism).gathered == 101


def test_another_mechanism_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="OfflineMechanism"):
        quote_partitions(["a.csv"], tmp_path / "out", object())


def test_progress_tells_passes_and_partitions(tmp_path):
    told = []
    pattern = divided(tmp_path / "in", np.random.default_rng(14), 2, COSTS[:40])
    quote_partitions(
        pattern, tmp_path / "out", MECHANISM, progress=lambda what, share: told.append((what, share))
    )
    assert told[0] == ("reading: pass 1, partition 1 of 2", pytest.approx(1 / 6))
    assert told[-1] == ("writing: pass 3, partition 2 of 2", 1.0)


@pytest.mark.parametrize(
    ("group", "free"),
    [
        ("0::/", 900),
        ("0::/outer", 600),
        ("0::/outer/inner", 600),
        ("0::/outer/tight", 100),
        ("0::/../x", 900),
    ],
)
def test_free_memory_is_what_the_tightest_control_group_leaves(monkeypatch, group, free):
    files = {
        "/proc/meminfo": ["MemTotal: 9 kB", "MemAvailable: 1 kB"],
        "/proc/self/cgroup": ["1:name=systemd:/other", group],
        "/sys/fs/cgroup/memory.max": ["1000"],
        "/sys/fs/cgroup/memory.current": ["100"],
        "/sys/fs/cgroup/outer/memory.max": ["700"],
        "/sys/fs/cgroup/outer/memory.current": ["100"],
        "/sys/fs/cgroup/outer/inner/memory.max": ["max"],
        "/sys/fs/cgroup/outer/inner/memory.current": ["50"],
        "/sys/fs/cgroup/outer/tight/memory.max": ["150"],
        "/sys/fs/cgroup/outer/tight/memory.current": ["50"],
    }
    monkeypatch.setattr(quoting, "_lines", lambda path: files.get(path, []))
    assert quoting.free_memory() == free
