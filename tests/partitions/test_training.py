"""Training on partitions: the model of memory, spent once, and all problems told before anything is."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from dpmarket.campaign import read_model, train_file
from dpmarket.campaign.spending import LastMoment
from dpmarket.errors import FileProblem, InvalidInput, LedgerRefusal
from dpmarket.ledger import existing_ledger, outside, reading, rounds_of
from dpmarket.ledger.rounds import quotes_of, spent_of, weights_of
from dpmarket.partitions import quote_campaign, repartition, train_campaign
from dpmarket.privacy import SeededNoise
from support.campaigns import make_three, read_rows, seller_ids
from support.commands import run
from support.desks import Desk, market_text


@pytest.fixture(autouse=True)
def state(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DPMARKET_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def same_noise(monkeypatch):
    """Draw the same noise in every training."""

    def bits(self):
        self.mark()
        return SeededNoise(5).bits()

    monkeypatch.setattr(LastMoment, "bits", bits)


@pytest.fixture
def desk(tmp_path):
    return ready(Desk(tmp_path / "desk"))


def ready(desk, partitions=4):
    """Quote a desk's reports in partitions, and divide its data by person."""
    rows = [(row["seller"], float(row["cost"])) for row in read_rows(desk / "reports.csv")]
    (desk / "reports").mkdir()
    for k, part in enumerate(np.array_split(np.random.default_rng(0).permutation(len(rows)), 3)):
        table = pl.DataFrame([rows[row] for row in part], schema=["seller", "cost"], orient="row")
        table.write_parquet(desk / "reports" / f"part-{k}.parquet")
    quote_campaign(desk.market, f"{desk / 'reports'}/*.parquet", desk / "quotes")
    repartition(str(desk / "data.csv"), desk / "by-person", partitions, id_column="seller")
    return desk


def trained(desk, output="model.json", **options):
    data = f"{desk / 'by-person'}/*.parquet"
    return train_campaign(desk.market, desk / "quotes", data, desk / output, **options)


def test_the_model_and_what_is_spent_are_those_of_training_in_memory(tmp_path, desk, same_noise):
    other = ready(Desk(tmp_path / "other"))
    for one in (desk, other):
        one.withdraw("007", quotes="quotes")
    done = trained(desk)
    whole = train_file(other.market, other / "quotes", other / "data.csv", other / "model.json")
    assert (desk / "model.json").read_text() == (other / "model.json").read_text()
    assert done.passes <= 8
    assert (done.result.withdrawn, done.result.clipped) == (1, whole.clipped)
    assert done.result.total_promise == pytest.approx(whole.total_promise, rel=1e-14)
    kept = []
    for one in (desk, other):
        with existing_ledger(one / "market.ledger") as ledger, reading(ledger) as connection:
            (found,) = one.rounds()
            kept.append((spent_of(connection, found), weights_of(connection, 1)))
            assert quotes_of(connection, 1).height == kept[-1][0].size
    np.testing.assert_array_equal(kept[0][0], kept[1][0])
    np.testing.assert_allclose(kept[0][1], kept[1][1], rtol=1e-15)
    assert (kept[0][0] > 0.0).any()


def test_how_data_are_divided_and_ordered_changes_nothing(tmp_path, desk, same_noise):
    trained(desk)
    for partitions, engine in ((1, None), (7, None), (60, None)):
        other = ready(Desk(tmp_path / f"in-{partitions}"), partitions)
        trained(other, engine=engine)
        assert (other / "model.json").read_text() == (desk / "model.json").read_text()


def test_several_rows_of_a_person_are_those_of_memory_too(tmp_path, same_noise):
    several = market_text(sellers={"rows_per_person": 3})
    desks = [Desk(tmp_path / name, market=several) for name in ("parts", "memory")]
    for desk in desks:
        rows = read_rows(desk / "data.csv")
        table = pl.DataFrame(rows + rows[:20] + rows[10:15])
        table.write_csv(desk / "data.csv")
        ready(desk)
    trained(desks[0])
    train_file(desks[1].market, desks[1] / "quotes", desks[1] / "data.csv", desks[1] / "model.json")
    first, second = ((desk / "model.json").read_text() for desk in desks)
    assert first == second
    assert read_model(desks[0] / "model.json").records == 60  # people: how many rows they have is private


def test_categories_gaps_and_yes_or_no_are_those_of_memory_too(tmp_path, same_noise):
    text = market_text(training={"outside_bounds": "clip"})
    start, end = text.index("[features]"), text.index("[label]")
    columns = """[features]
age = { low = 18, high = 90, missing = 40 }
job = { categories = ["baker", "smith", "weaver"], other = true }
member = { boolean = true }

"""
    desks = [
        Desk(tmp_path / name, market=text[:start] + columns + text[end:]) for name in ("parts", "memory")
    ]
    draws = np.random.default_rng(3)
    jobs = draws.choice(["baker", "smith", "weaver", "pilot"], 60).tolist()
    for desk in desks:
        known = read_rows(desk / "data.csv")
        rows = {
            "seller": [row["seller"] for row in known],
            "age": [None if k % 7 == 0 else 20.0 + k for k in range(60)],
            "job": jobs,
            "member": ["yes" if k % 3 else "no" for k in range(60)],
            "has bought": [row["has bought"] for row in known],
        }
        pl.DataFrame(rows).write_csv(desk / "data.csv")
        ready(desk)
    trained(desks[0])
    train_file(desks[1].market, desks[1] / "quotes", desks[1] / "data.csv", desks[1] / "model.json")
    first, second = ((desk / "model.json").read_text() for desk in desks)
    assert first == second
    model = read_model(desks[0] / "model.json")
    assert [feature.name for feature in model.features][:2] == ["age", "job=baker"]
    assert model.noise_shape is not None


def test_it_is_spent_once_and_the_same_model_is_handed_out_again(desk):
    first = trained(desk)
    again = trained(desk, "again.json")
    assert (first.result.is_new, again.result.is_new, again.passes) == (True, False, 0)
    assert (desk / "model.json").read_text() == (desk / "again.json").read_text()
    assert desk.rounds()[0].state == "released"
    assert [line.kind for line in outside.read_log()] == ["begun", "debit", "mark"]
    assert again.result.total_promise == pytest.approx(first.result.total_promise, rel=1e-15)


def test_a_statement_after_training_looks_into_one_partition_only(desk, monkeypatch):
    from dpmarket.partitions import desk as partition_desk

    trained(desk)
    opened = []
    own = partition_desk.Manifest._partition

    def note(manifest, folder, number):
        opened.append((folder.name, number))
        return own(manifest, folder, number)

    monkeypatch.setattr(partition_desk.Manifest, "_partition", note)
    (line,) = desk.statement("007")
    assert [folder for folder, _ in opened] == ["quotes", "spent"]
    assert len({number for _, number in opened}) == 1
    assert 0.0 < line.spent <= line.promised


def test_all_problems_of_all_partitions_are_told_and_nothing_is_spent(desk):
    for k, path in enumerate(sorted((desk / "by-person").iterdir())[:2]):
        table = pl.read_parquet(path)
        name = table.columns[-1 - k]
        broken = pl.when(pl.int_range(pl.len()) == 1).then(pl.lit("?")).otherwise(pl.col(name))
        table.with_columns(broken.alias(name)).write_parquet(path)
    with pytest.raises(FileProblem) as refused:
        trained(desk)
    assert len(refused.value.details) == 2
    for k, detail in enumerate(refused.value.details):
        assert f"part-0000{k}-of-00004.parquet: column" in detail
        assert "row 2" in detail
        assert "?" not in detail
    assert desk.rounds()[0].state == "open"
    assert not (desk / "model.json").exists()
    assert not list(desk.folder.glob(".model.json*"))


def test_a_row_in_the_wrong_partition_is_told(desk):
    first, second = sorted((desk / "by-person").iterdir())[:2]
    table = pl.read_parquet(first)
    pl.concat([pl.read_parquet(second), table[:1]]).write_parquet(second)
    table[1:].write_parquet(first)
    with pytest.raises(FileProblem) as refused:
        trained(desk)
    assert any("a person of another partition" in detail for detail in refused.value.details)
    assert desk.rounds()[0].state == "open"


def test_a_seller_without_a_row_is_told_by_the_row_of_the_quote(desk):
    path = next(iter(sorted((desk / "by-person").iterdir())))
    gone = pl.read_parquet(path)
    gone[1:].write_parquet(path)
    with pytest.raises(FileProblem) as refused:
        trained(desk)
    (detail,) = refused.value.details
    assert "a seller who has no row in the data" in detail
    name, row = detail.split(": column")[0], int(detail.rstrip(".").rsplit(" ", 1)[1])
    assert pl.read_parquet(name)["seller"][row - 1] == gone["seller"][0]
    desk.withdraw(gone["seller"][0], quotes="quotes")
    assert trained(desk).result.is_new


def test_partitions_that_are_not_by_person_or_not_all_there_are_refused(desk):
    paths = sorted((desk / "by-person").iterdir())
    with pytest.raises(FileProblem, match="partitions by person, all of them"):
        train_campaign(desk.market, desk / "quotes", paths[1:], desk / "model.json")
    with pytest.raises(FileProblem, match="dpmarket repartition"):
        train_campaign(desk.market, desk / "quotes", [*paths, desk / "data.csv"], desk / "model.json")


def test_quotes_that_were_changed_or_moved_are_refused_and_nothing_is_spent(desk):
    (desk / "quotes").rename(desk / "moved")
    with pytest.raises(LedgerRefusal, match=r"lie in .*quotes"):
        train_campaign(desk.market, desk / "moved", [desk / "data.csv"], desk / "model.json")
    (desk / "moved").rename(desk / "quotes")
    path = desk / "quotes" / "part-1.parquet"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(FileProblem) as refused:
        trained(desk)
    assert "not as it was entered" in refused.value.details[0]
    with existing_ledger(desk / "market.ledger") as ledger, reading(ledger) as connection:
        assert rounds_of(connection)[0].state == "open"


def test_models_of_more_labels_and_statistics_say_where_they_are_trained(tmp_path):
    folder = tmp_path / "three"
    folder.mkdir()
    make_three(folder)
    with pytest.raises(InvalidInput, match="two labels"):
        train_campaign(folder / "market.toml", folder, [folder / "data.csv"], folder / "model.json")


@pytest.mark.parametrize(
    ("where", "state"),
    [("dpmarket.partitions.training.keep_owned", "open"), ("dpmarket.privacy.noise._draw", "lost")],
)
def test_a_driver_that_is_killed_leaves_it_to_the_mark(desk, where, state):
    code = (
        "import os, signal, pytest\n"
        "from dpmarket.partitions import train_campaign\n"
        "def die(*_): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"pytest.MonkeyPatch().setattr({where!r}, die)\n"
        "train_campaign('market.toml', 'quotes', 'by-person/*.parquet', 'model.json')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=desk.folder, stderr=subprocess.PIPE)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if state == "open":
        assert trained(desk).result.is_new
    else:
        with pytest.raises(LedgerRefusal, match="sellers are paid"):
            trained(desk)
    assert desk.rounds()[0].state == ("released" if state == "open" else "lost")


def test_a_lost_ledger_is_repaired_by_the_log_and_the_partitions(desk, tmp_path):
    backup = tmp_path / "backup"
    shutil.copy(desk / "market.ledger", backup)
    desk.withdraw("007", quotes="quotes")
    trained(desk)
    shutil.copy(backup, desk / "market.ledger")
    with pytest.raises(LedgerRefusal, match="does not know"):
        trained(desk, "other.json")
    run("ledger", "repair", desk / "market.ledger")
    assert desk.rounds()[0].state == "lost"
    statement = desk.statement("007")
    assert statement[0].state == "withdrawn"
    (line,) = desk.statement(seller_ids(60)[10])
    assert line.spent == line.promised > 0.0


def test_the_commands_repartition_and_train(desk):
    done = run(
        "repartition", desk / "data.csv", "-o", desk / "divided", "-n", "3", "--id-column", "seller", "--json"
    )
    assert json.loads(done.stdout)["rows"] == len(seller_ids(60))
    pattern = f"{desk / 'divided'}/*.parquet"
    options = ("--market", desk.market, "--quotes", desk / "quotes", "--engine", "threads", "--json")
    told = json.loads(run("train", pattern, "-o", desk / "model.json", *options).stdout)
    assert told["is_new"]
    assert read_model(desk / "model.json").records == told["model"]["records"]
    refused = run("train", pattern, "-o", "-", *options, code=2)
    assert "a file for the model" in refused.stderr
