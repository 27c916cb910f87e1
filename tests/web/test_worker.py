"""A worker's process for reports and forecasts: there only while one of them is due."""

from datetime import UTC, datetime, timedelta

from dpmarket.campaign import jobs, schema
from dpmarket.web import worker


class Started:
    """What would start processes; counts them, and none of them lives."""

    number = 0

    def Process(self, **_):
        return self

    def start(self):
        self.number += 1

    def is_alive(self):
        return False

    def terminate(self):
        pass

    join = terminate


def started(shop, monkeypatch):
    """Return how many processes a worker starts in two looks at the queue."""
    found, looks = Started(), iter([False] * 5 + [True] * 5)
    monkeypatch.setattr(worker, "get_context", lambda _: found)
    monkeypatch.setattr(worker, "_PAUSE", 0.0)
    worker._keep_long(shop.market, None, lambda: next(looks))
    return found.number


def test_no_process_is_started_for_what_is_put_off_in_hand_or_done(shop, monkeypatch):
    market, now = shop.market, datetime.now(UTC)
    assert started(shop, monkeypatch) == 0
    market.transact(lambda tx: tx.job("report", 7, tx.now))
    assert started(shop, monkeypatch) > 0
    job = jobs.claim_job(market, ("work",), ("report",), now)
    assert started(shop, monkeypatch) == 0
    jobs.put_off_job(market, job, "FileProblem", now)
    assert started(shop, monkeypatch) == 0
    with market.writing() as c:
        c.execute(schema.job.update().values(due_at=schema.time_text(now - timedelta(hours=1))))
    assert started(shop, monkeypatch) > 0
    jobs.end_job(market, jobs.claim_job(market, ("work",), ("report",), now))
    assert started(shop, monkeypatch) == 0
