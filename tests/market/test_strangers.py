"""Whatever strangers send is done or refused by a refusal of the desk, and a refusal changes nothing."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dpmarket import market
from dpmarket.errors import DpmarketError, MarketRefusal
from dpmarket.ledger import reading
from dpmarket.ledger import tables as ledger_tables
from dpmarket.market import clearing, tables
from support.live import CLOSES, MARKET, SOLD, START, Live

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

TEXTS = [
    "",
    " ",
    "\ud800",
    "a\x00b",
    "'; DROP TABLE person; --",
    "x" * 100_000,
    "\u202e\u0000",
    "é",
    "e\u0301",
]
NUMBERS = [10**400, -(10**400), float("nan"), float("inf"), -1, True, "2.0", None, 2 + 1j, b"2"]


def everything(desk):
    """Return all rows of the ledger and the desk."""
    with reading(desk.ledger) as connection:
        return [
            connection.execute(table.select().order_by(*table.primary_key.columns)).all()
            for metadata in (ledger_tables.metadata, tables.metadata)
            for table in metadata.sorted_tables
        ]


def refused(live, act, *values):
    """Whether the desk refuses an act, by its own refusal and without a trace; its words hold no value."""
    before = everything(live.desk)
    words = None
    try:
        with live.acting() as connection:
            act(connection, *values)
    except DpmarketError as problem:
        words = str(problem)
    if words is None:
        return False
    assert everything(live.desk) == before
    assert "\n" not in words
    assert "xxxxxxxx" not in words
    return True


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_what_is_no_cost_is_refused(desk, number):
    online, offline = Live(desk), Live(desk, "offline", title="offline")
    seated, consented = online.newcomer("a", "consent", "seat"), offline.newcomer("b", "consent")
    assert refused(online, market.choose, seated, number, START)
    assert refused(offline, market.report_cost, consented, number, START)


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
def test_what_is_no_amount_or_limit_is_refused(live, number):
    assert refused(live, market.fund_campaign, live.campaign, number, START)
    assert refused(live, market.refund_campaign, live.campaign, number, START)
    assert refused(live, market.invite, live.campaign, ["somebody"], number, START)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_any_text_is_taken_or_refused_wherever_a_text_goes(live, text):
    who = live.newcomer("a", "consent")
    operator = market.operator_key(live.desk.keys)
    consent = live.looked(market.campaign_of, live.campaign).consent_version
    schedule = market.Schedule(START, CLOSES, CLOSES)

    def draft(connection, title):
        market.draft_campaign(
            connection, live.buyer, title, MARKET, "online", schedule, consent_version=consent, now=START
        )

    acts = [
        (market.take_seat, text, START),
        (market.accept, text, START),
        (market.withdraw_participation, text, START),
        (market.deliver, text, {}, START),
        (market.invite, text, ["a"], 1.0, START),
        (market.fund_campaign, text, 1, START),
        (market.participation_with, text),
        (market.caller_with, text, ["api"], START),
        (market.consent_page, live.campaign, text),
        (market.give_consent, who, text, START),
        (market.campaign_of_payout, text),
        (market.add_member, "somebody", text, START),
        (market.limits_of, text),
        (market.show_campaign, market.Caller("buyer", text), live.campaign),
        (market.show_campaign, market.Caller("seller", text), live.campaign),
    ]
    for act, *values in acts:
        assert refused(live, act, *values), act
    for act, *values in [
        (market.invite, live.campaign, [text], 1.0, START),
        (market.set_payee, who, text, operator, START),
        (draft, text),
        (market.add_consent, "en", text, START),
        (market.add_member, text, "buyer", START),
        (market.once, text, "0123456789abcdef", {"a": text}, lambda: {"b": 1}, START),
        (market.once, "owner", "0123456789abcdef" + text, {"a": 1}, lambda: {"b": text}, START),
        (market.take_token, text, text, market.Rate(1, 1.0), START),
        (market.revoke_token, text, START),
    ]:
        refused(live, act, *values)  # taken or refused: anything else it raises
    assert live.state() == "open"


LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("opens", "closes", "until"),
    [
        (START, LAST, LAST),
        (START, CLOSES, LAST),
        (START, CLOSES, datetime.max.replace(tzinfo=timezone(timedelta(hours=-12)))),
        (START, CLOSES, START + timedelta(days=5000)),
        (datetime.min.replace(tzinfo=timezone(timedelta(hours=12))), CLOSES, CLOSES),
        (START, CLOSES.replace(tzinfo=None), CLOSES),
    ],
)
def test_times_that_nobody_lives_to_see_are_refused(live, opens, closes, until):
    def draft(connection):
        schedule = market.Schedule(opens, closes, until)
        market.draft_campaign(
            connection, live.buyer, "x", MARKET, "online", schedule, consent_version=1, now=START
        )

    assert refused(live, draft)


@pytest.mark.parametrize("scale", [10**9, 10**15, 10**18, 10**30])
def test_money_that_cannot_be_counted_is_refused_before_anybody_is_promised_any(desk, scale):
    rules = {**MARKET, "money": {"currency": "EUR", "minor_units": scale}}
    try:
        live = Live(desk, rules=rules, seats=1)
    except DpmarketError:
        return
    who = live.newcomer("a", *SOLD)
    live.close()
    assert live.train() == "released"
    assert live.balance().owed == live.looked(market.quote_of, who).payment < 2**53


def test_of_two_clearings_the_one_that_finds_nobody_left_cancels_nothing(offline, monkeypatch):
    """The only seller leaves between two workers: the first quoted them, the second finds no report."""
    who = offline.newcomer("a", "consent", "report", cost=2.0)
    offline.now = CLOSES
    found = clearing.begin_clearing(offline.desk, offline.campaign, offline.now)
    opened = clearing.open_costs(offline.desk, found)
    market.clear(offline.desk, offline.campaign, offline.now)
    monkeypatch.setattr(clearing, "begin_clearing", lambda *_: found)
    monkeypatch.setattr(clearing, "open_costs", lambda *_: ([], opened[1][:0]))
    before = everything(offline.desk)
    with pytest.raises(MarketRefusal, match="cleared already"):
        market.clear(offline.desk, offline.campaign, offline.now)
    assert everything(offline.desk) == before
    assert (offline.state(), offline.state(who)) == ("deciding", "quoted")


def test_who_says_again_and_again_that_they_leave_fills_no_log(live):
    from dpmarket.ledger import outside

    who = live.newcomer("a", "consent")
    for _ in range(2):
        live.withdraw(who)
    lines = len(outside.read_log())
    for _ in range(5):
        assert live.withdraw(who) == "no invitations"
    assert len(outside.read_log()) == lines
