"""A database put back from a backup never spends, pays or refunds twice; the log decides.

Each kind of line: a backup is made before it, put back after it, refused, and repaired.
"""

import contextlib
import importlib.util
import json
import shutil
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from campaign.live import (
    DELIVER,
    LARGEST,
    NOW,
    RULES,
    Live,
    balanced,
    file_campaign,
    half_price,
    import_reports,
    opened,
    reports,
    state_of,
)
from dpmarket.campaign import account, campaigns, line, log, payouts, schema, sellers, training
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.database import is_address, open_market
from dpmarket.campaign.repair import back_up, put_back, repair, restore
from dpmarket.campaign.views import show_money
from dpmarket.errors import FileProblem, MarketRefusal
from support.databases import new_database


class Copies:
    """A market whose database can be put back as it was."""

    def __init__(self, place, folder, server):
        self.place, self.folder, self.server = place, folder, server
        self.market = opened(place, folder)
        self.clock = self.market.clock
        self.saved, self.lives = None, []

    def live(self, **options):
        """Open a live campaign, which goes on in whatever is put back."""
        self.lives.append(Live(self.market, **options))
        return self.lives[-1]

    def _open(self):
        self.market = opened(self.place, self.folder, self.clock, make=False)
        for live in self.lives:
            live.market = self.market

    def save(self):
        """Make a copy of the database as it is now."""
        if is_address(self.place):
            self.market.close()
            self.saved = new_database(self.server, like=sa.make_url(self.place).database)
        else:
            self.saved = self.folder / "backup.db"
            self.saved.unlink(missing_ok=True)
            back_up(self.place, self.saved)

    def roll_back(self):
        """Put the copy back and open it."""
        self.market.close()
        if is_address(self.place):
            self.place = new_database(self.server, like=sa.make_url(self.saved).database)
        else:
            for end in ("", "-wal", "-shm"):
                self.place.with_name(self.place.name + end).unlink(missing_ok=True)
            put_back(self.saved, self.place)
        self._open()

    def repair(self, **options):
        self.market.close()
        done = repair(self.place, self.folder / "state", self.folder / "keys", **options)
        self._open()
        balanced(self.market)
        return done


@pytest.fixture
def copies(place, tmp_path, request):
    server = request.getfixturevalue("server") if is_address(place) else None
    made = Copies(place, tmp_path, server)
    yield made
    made.market.close()


def refuses(market, live):
    """Assert that acts are refused, and that reading is not."""
    with pytest.raises(FileProblem, match="repair"):
        live.invite("somebody else")
    with market.look() as c:
        assert c.execute(sa.select(schema.market)).one()


def known(sellers_):
    """Return records that were read before their key was destroyed."""
    return [0.0] * sellers_.height


def owed(live):
    with live.market.look() as c:
        return show_money(c, OWNER, live.campaign).owed


def test_a_spent_campaign_is_not_spent_again(copies):
    live = copies.live()
    me, other = live.deliver("a"), live.deliver("b", 1.0)
    live.close()
    copies.save()
    document = live.train()
    copies.roll_back()
    refuses(live.market, live)
    with pytest.raises(FileProblem):
        live.train()
    assert copies.repair() == ["spend"]
    assert (live.campaign_state(), live.state(me), live.state(other)) == ("failed", "spent", "spent")
    assert owed(live) == 650
    assert live.limits(me).spent == 1.0  # as promised: what was used is not known
    copies.roll_back()
    assert copies.repair(released={live.campaign: document}) == ["spend"]
    assert live.campaign_state() == "released"
    assert training.document_of(live.market, live.campaign) == document
    assert copies.repair() == []


def test_sellers_of_a_group_are_paid_from_its_own_escrow_after_a_repair(copies):
    """A backup from before the campaign knows neither the group nor its quota."""
    copies.save()
    rules = {**RULES, "groups": {"day": {}, "night": {"quota": 1}}}
    live = copies.live(rules=rules, allot={"day": LARGEST, "night": LARGEST})
    waits = live.join("c", "night")
    live.deliver("a", group="day"), live.deliver("b", 1.0, group="night")
    assert live.act(line.reserve, waits).state == "screened_out"
    live.train()
    copies.roll_back()
    assert copies.repair() == ["spend"]
    assert owed(live) == 250 + LARGEST
    assert live.campaign_state() == "failed"


def test_sellers_who_withdrew_stay_withdrawn(copies):
    live = copies.live()
    me, new = live.deliver("a"), None
    copies.save()
    live.act(sellers.withdraw, me, no_invitations=True)
    (new,) = live.invite("b")
    live.act(sellers.withdraw, new)
    copies.roll_back()
    refuses(live.market, live)
    assert copies.repair() == ["withdrawn", "withdrawn"]
    assert live.state(me) == "withdrawn"
    assert live.invite("b") == []
    other = copies.live(name="other")
    assert other.invite("a") == []  # asked for no invitations


def test_payments_that_were_handed_out_are_not_handed_out_again(copies):
    live = copies.live()
    me = live.deliver("a")
    live.act(sellers.set_payee, me, "account 7")
    live.train()
    copies.save()
    made = live.market.run(payouts.pay_out, OWNER, live.campaign)
    (reference,) = payouts.payout_lines(live.market, made.id).get_column("reference")
    live.market.run(payouts.returned, OWNER, live.campaign, [reference])
    live.market.run(payouts.pay_out, OWNER, live.campaign)
    copies.roll_back()
    assert copies.repair() == ["payout", "payout"]
    assert owed(live) == 0
    with pytest.raises(MarketRefusal):
        live.market.run(payouts.pay_out, OWNER, live.campaign)
    assert live.shown(me).sent


def test_money_that_was_refunded_is_not_refunded_again(copies):
    live = copies.live()
    live.accept("a")
    copies.save()
    live.close()
    assert live.campaign_state() == "cancelled"
    live.market.run(campaigns.refund, OWNER, live.campaign, live.escrow)
    copies.roll_back()
    assert copies.repair() == ["refund"]
    assert live.campaign_state() == "cancelled"
    with pytest.raises(MarketRefusal):
        live.market.run(campaigns.refund, OWNER, live.campaign, 1)


def test_a_commit_point_that_was_returned_spends_nothing(copies, monkeypatch):
    live = copies.live()
    me = live.deliver("a")
    live.close()
    copies.save()

    def full(pending):
        raise FileProblem("the disk is full.")

    monkeypatch.setattr(live.market.log, "append", full)
    with pytest.raises(FileProblem):
        live.train()
    monkeypatch.undo()
    live.market.ship()
    copies.roll_back()
    assert copies.repair() == ["spend", "return"]
    assert (live.campaign_state(), live.state(me)) == ("closed", "delivered")
    live.train()
    assert live.state(me) == "spent"


def test_library_models_count_after_a_rollback(copies):
    copies.save()
    account.MarketAccount(copies.market).charge(["a"], [1.5], delta=0.1)
    copies.roll_back()
    assert copies.repair() == ["spend"]
    with copies.market.look() as c:
        person = c.execute(sa.select(schema.person)).one()
    assert person.epsilon_spent == 1.5 * 2**30
    assert person.delta_used > 0


def test_a_copy_that_went_on_stops_before_noise_and_its_own_lines_follow_after_repair(copies):
    """Two copies pass the check together; the second cannot ship, and draws no noise."""
    live = copies.live()
    me, other = live.deliver("a"), live.deliver("b")
    live.close()
    copies.save()
    live.train()
    lines = live.market.log.path.read_bytes()
    copies.roll_back()
    short = b"".join(line + b"\n" for line in lines.splitlines()[:-1])
    live.market.log.path.write_bytes(short)  # as the copy saw it when it began
    append, drawn = live.market.log.append, []

    def late(pending):
        live.market.log.path.write_bytes(lines)
        return append(pending)

    live.market.log.append = late
    with pytest.raises(FileProblem, match="repair"):
        live.train(lambda *given: (given[2](), drawn.append(1)), known)
    assert drawn == []
    assert copies.repair() == ["spend"]
    kinds = [one.content["kind"] for one in live.market.log.lines()]
    assert kinds == ["begun", "spend", "spend", "return"]
    assert [live.state(one) for one in (me, other)] == ["spent", "spent"]
    assert owed(live) == 500


def test_a_lost_log_is_refused_then_replaced_and_promises_in_doubt_are_paid(copies):
    live = copies.live()
    me = live.deliver("a")
    lost = copies.live(name="without key")
    paid = lost.deliver("b")
    survey = file_campaign(copies.market)
    import_reports(copies.market, OWNER, survey, reports([1.0, 2.0]), half_price)
    for path in copies.market.keys.glob(f"{lost.campaign}-*.key"):
        path.unlink()
    copies.market.log.path.unlink()
    with pytest.raises(FileProblem, match="--log-lost"):
        live.invite("c")
    with pytest.raises(FileProblem, match="--log-lost"):
        copies.repair()
    assert sorted(copies.repair(log_lost=True)) == ["failed", "failed"]
    assert (live.campaign_state(), live.state(me)) == ("open", "delivered")  # its key is there: no noise
    assert (lost.campaign_state(), lost.state(paid)) == ("failed", "spent")
    assert state_of(copies.market, survey) == "failed"
    live.invite("c")
    with pytest.raises(FileProblem):
        copies.repair(log_lost=True)


def test_the_log_of_another_market_is_refused(copies, tmp_path):
    live = copies.live()
    with open_market(tmp_path / "other.db", tmp_path / "elsewhere", make=True) as other:
        other.transact(lambda tx: None)
        shutil.copy(other.log.path, copies.market.log.path)
    with pytest.raises(FileProblem):
        live.invite("a")
    with pytest.raises(FileProblem, match="another market"):
        copies.repair()


def test_file_people_who_withdrew_stay_out_of_a_campaign_of_the_same_name(copies):
    copies.save()
    survey = file_campaign(copies.market)
    import_reports(copies.market, OWNER, survey, reports([1.0, 2.0]), half_price)
    copies.market.run(sellers.withdraw_people, OWNER, survey, ["person 1"])
    copies.roll_back()
    copies.repair()
    survey = file_campaign(copies.market)
    quotes = import_reports(copies.market, OWNER, survey, reports([1.0, 2.0]), half_price)
    assert dict(quotes.select("id", "state").iter_rows()) == {"person 0": "accepted", "person 1": "withdrawn"}


def test_a_changed_line_or_snapshot_is_refused(copies):
    live = copies.live()
    live.deliver("a")
    live.close()
    copies.save()
    live.train()
    (snapshot,) = live.market.log.folder.glob("*.parquet")
    content = snapshot.read_bytes()
    copies.roll_back()
    snapshot.write_bytes(content[:-1] + b"x")
    with pytest.raises(FileProblem, match="differs"):
        copies.repair()
    snapshot.write_bytes(content)
    lines = live.market.log.path.read_text().splitlines()
    changed = json.loads(lines[1])
    changed["at"] = "2020-01-01T00:00:00+00:00"
    live.market.log.path.write_text("\n".join([lines[0], json.dumps(changed), lines[1]]) + "\n")
    with pytest.raises(FileProblem, match="follow"):
        copies.repair()


def test_half_a_line_counts_for_nothing(copies):
    live = copies.live()
    path = live.market.log.path
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"tick":2,"at"')
    (me,) = live.invite("a")
    live.act(sellers.withdraw, me)
    lines = live.market.log.lines()
    assert [one.tick for one in lines] == [1, 2]


def test_restoring_a_backup_deletes_all_tokens(copies, tmp_path):
    programs = Path(importlib.util.find_spec("pgserver").origin).parent / "pginstall" / "bin"
    live = copies.live()
    (me,) = live.invite("a")
    copies.market.close()
    back_up(copies.place, tmp_path / "copy", programs)
    copies.market = live.market = opened(copies.place, copies.folder, make=False)
    live.act(sellers.withdraw, me)
    copies.market.close()
    place = new_database(copies.server, like="template1") if is_address(copies.place) else tmp_path / "new.db"
    done = restore(tmp_path / "copy", place, copies.folder / "state", copies.folder / "keys", programs)
    assert done == ["withdrawn"]
    with opened(place, copies.folder, make=False) as market, market.look() as c:
        assert c.execute(sa.select(schema.token)).first() is None


def test_no_false_refusal_beside_concurrent_withdrawals(copies):
    live = copies.live()
    who = live.invite(*(f"p{k}" for k in range(40)))
    stop, problems, checks = threading.Event(), [], 0

    def withdraw():
        with contextlib.suppress(BaseException):
            for one in who:
                live.act(sellers.withdraw, one)
        stop.set()

    other = opened(copies.place, copies.folder, copies.clock, make=False)
    thread = threading.Thread(target=withdraw)
    thread.start()
    while not stop.is_set():
        try:
            other.verify()
        except FileProblem as problem:
            problems.append(problem)
        checks += 1
    thread.join()
    other.close()
    assert problems == []
    assert checks > 40
    assert len(live.market.log.lines()) == 41


def test_a_line_of_many_people_is_the_last_one(tmp_path):
    found, lines = log.Log(tmp_path / "log"), []
    for tick, number in enumerate((1, 1_000, 300), 1):
        body = {"people": ["a" * 32] * number}
        lines.append(log.make_line(tick, "now", "withdrawn", body, lines[-1].digest if lines else ""))
        found.append(lambda last: lines[-1:])
        assert found.last() == lines[-1]
    assert found.lines() == lines


def test_what_was_spent_counts_even_beyond_a_limit(copies):
    """A limit that a rollback lets be used twice: the other campaign of the person is left."""
    rules = {"sellers": {"minimum": 1, "lifetime_epsilon": 2.5, "lifetime_delta": 0.9}, "record_bytes": 8}
    first = copies.live(name="first", rules=rules)
    me = first.accept("a")
    copies.save()
    first.market.clock.now = DELIVER
    first.work(campaigns.close)  # lapses without a line in the log
    first.market.clock.now = NOW
    second = copies.live(name="second", rules=rules)
    second.deliver("a", cost=1.0)
    second.train()
    copies.roll_back()
    assert copies.repair() == ["spend"]
    assert first.state(me) == "withdrawn"
    with copies.market.look() as c:
        person = c.execute(sa.select(schema.person)).one()
    assert (person.epsilon_spent, person.epsilon_held) == (2 * 2**30, 0)
    assert person.epsilon_cap == 2.5 * 2**30
