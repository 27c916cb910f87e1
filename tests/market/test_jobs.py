"""Jobs survive what passes: a database that is away, a full disk, a worker that left too early."""

from datetime import timedelta

import pytest
import sqlalchemy as sa

from dpmarket import market
from dpmarket.errors import FileProblem, Infeasible, LedgerRefusal, NotConverged
from dpmarket.ledger import checking, outside, reading, settle
from dpmarket.market import condition, tables, training, worker
from dpmarket.market.clearing import begin_clearing
from dpmarket.market.jobs import claim_job, end_job
from dpmarket.market.keys import has_key, names_of_keys, new_key
from support.live import CLOSES, SOLD, Live


def job_of(live, kind="train"):
    columns = tables.job.c
    query = sa.select(columns.state, columns.attempts, columns.error_kind).where(columns.kind == kind)
    return tuple(live.looked(lambda connection: connection.execute(query).one()))


def failing(monkeypatch, problem, times):
    """Let training fail so often."""
    real, left = training.spend_and_train, [problem] * times

    def fails(*arguments, **options):
        if left:
            raise left.pop()
        return real(*arguments, **options)

    monkeypatch.setattr(training, "spend_and_train", fails)


def test_a_job_that_lacked_the_database_or_a_file_is_done_later(live, monkeypatch):
    live.newcomer("a", *SOLD)
    live.close()
    failing(monkeypatch, FileProblem("the server is away."), 2)
    market.work(live.desk, live.now)
    assert (live.state(), job_of(live)) == ("closed", ("waiting", 1, "FileProblem"))
    assert market.work(live.desk, live.now + timedelta(seconds=1)) == []
    market.work(live.desk, live.now + timedelta(seconds=2))
    assert job_of(live) == ("waiting", 2, "FileProblem")
    assert market.work(live.desk, live.now + timedelta(seconds=4)) == []  # later and later
    market.work(live.desk, live.now + timedelta(seconds=6))
    assert (live.state(), job_of(live)) == ("released", ("done", 3, None))


def test_a_training_that_the_ledger_refuses_for_a_moment_is_done_later(live, monkeypatch):
    """It would be nobody's for ever: its sellers were promised a payment, and the buyer a model."""
    live.newcomer("a", *SOLD)
    live.close()
    failing(monkeypatch, LedgerRefusal("this attempt was declared dead."), 1)
    market.work(live.desk, live.now)
    assert (live.state(), job_of(live)) == ("closed", ("waiting", 1, "LedgerRefusal"))
    market.work(live.desk, live.now + timedelta(seconds=2))
    assert (live.state(), job_of(live)) == ("released", ("done", 2, None))


def test_a_worker_that_looks_while_another_one_trains_takes_nothing_for_lost(live, monkeypatch):
    """Between its look at the log and its look at the ledger the other one goes on with both."""
    live.newcomer("a", *SOLD)
    live.close()
    market.work(live.desk, live.now)
    other = Live(live.desk, title="autumn")
    other.newcomer("b", *SOLD)
    other.close()
    real, trained = outside.read_log, []

    def read_log():
        lines = real()
        if not trained:
            trained.append(True)
            other.train()
        return lines

    monkeypatch.setattr(outside, "read_log", read_log)
    settle(live.desk.ledger)
    assert other.state() == "released"


@pytest.mark.parametrize("module", [checking, condition])
def test_a_check_during_which_somebody_trains_finds_nothing(live, monkeypatch, module):
    """The books are read before the log: what was logged meanwhile is not missing."""
    live.newcomer("a", *SOLD)
    live.close()
    name = "check_ledger" if module is checking else "check_market"
    real, trained = getattr(module, name), []

    def checks(connection):
        real(connection)
        if not trained:
            trained.append(True)
            live.train()

    monkeypatch.setattr(module, name, checks)
    if module is checking:
        with reading(live.desk.ledger) as connection:
            checking.check_everything(connection, live.desk.ledger)
    else:
        place = live.desk.ledger.path or live.desk.ledger.engine.url.render_as_string(hide_password=False)
        found = condition.desk_findings(str(place).replace("+psycopg", ""), live.desk.keys, live.now)
        assert [one for one in found if one.kind in ("books", "log")] == []
    assert live.state() == "released"


def test_a_job_that_can_never_be_done_is_failed_at_once(live, monkeypatch):
    live.newcomer("a", *SOLD)
    live.close()
    failing(monkeypatch, Infeasible("no such model."), 1)
    market.work(live.desk, live.now)
    assert job_of(live) == ("failed", 1, "Infeasible")
    assert market.work(live.desk, live.now + timedelta(days=1)) == []


def test_a_training_that_somebody_left_to_a_worker_who_died_is_begun_again(live):
    """A second worker found the training under way, took it for done, and the first one died before noise."""
    live.newcomer("a", *SOLD)
    live.close()
    jobs = [claim_job(live.desk, live.now) for _ in range(2)]
    assert {job.kind for job in jobs} == {"close", "train"}
    for job in jobs:
        with live.acting() as connection:
            end_job(connection, job)
    market.work(live.desk, live.now)
    assert (live.state(), job_of(live)) == ("released", ("done", 2, None))


def test_pairs_that_a_dead_worker_left_are_destroyed_and_the_campaigns_own_is_not(live):
    live.newcomer("a", *SOLD)
    for _ in range(3):
        new_key(live.desk.keys, live.campaign)  # and the worker died before it told the public half
    stranger = new_key(live.desk.keys, "f" * 32)
    assert names_of_keys(live.desk.keys) == {live.campaign: 4, "f" * 32: 1}
    market.work(live.desk, live.now)
    assert names_of_keys(live.desk.keys) == {live.campaign: 1, "f" * 32: 1}
    live.close()
    market.work(live.desk, live.now)
    assert live.state() == "released"  # its records could be opened
    new_key(live.desk.keys, live.campaign)
    market.work(live.desk, live.now)
    assert names_of_keys(live.desk.keys) == {"f" * 32: 1}
    assert has_key(live.desk.keys, "f" * 32, stranger)


def test_a_clearing_that_failed_is_done_when_it_is_wanted_again(offline, monkeypatch):
    """Without that the campaign would be clearing for ever."""
    live = offline
    live.newcomer("a", "consent", "report")
    live.now = CLOSES
    real = worker.clear

    def fails(desk, campaign, now):
        begin_clearing(desk, campaign, now)
        raise NotConverged("no allocation.")

    monkeypatch.setattr(worker, "clear", fails)
    market.work(live.desk, live.now)
    assert (live.state(), job_of(live, "clear")) == ("clearing", ("failed", 1, "NotConverged"))
    monkeypatch.setattr(worker, "clear", real)
    assert market.work(live.desk, live.now + timedelta(days=1)) == []
    with live.acting() as connection:
        assert market.retry_jobs(connection, live.now) == 1
        assert market.retry_jobs(connection, live.now) == 0
    market.work(live.desk, live.now)
    assert (live.state(), job_of(live, "clear")[0]) == ("deciding", "done")
