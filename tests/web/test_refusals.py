"""Every refusal has its status: expired 410, used 409, another's 404, too little money 402, full disk 503."""

import secrets

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from dpmarket.market import acting, begin_training, close_campaign, issue_token, settle_campaign, work
from dpmarket.market.views import Caller
from dpmarket.web.client import Client, Refused
from support.live import MARKET
from support.shop import RECORD, SOLD, body_of, open_shop


def status(act, *values, **options):
    with pytest.raises(Refused) as refusal:
        act(*values, **options)
    return refusal.value.status


def test_a_quote_that_is_too_old_is_gone(shop):
    seller = shop.seller(shop.open(), "consent", "menu", "quote")
    shop.clock.pass_(hours=49)
    assert status(seller.accept) == 410


def test_a_seat_that_is_over_is_gone_and_can_be_taken_again(shop):
    seller = shop.seller(shop.open(), "consent", "menu")
    shop.clock.pass_(minutes=16)
    assert status(seller.quote, 2.0) == 410
    assert status(seller.get, "/me/menu") == 410
    assert seller.menu()["state"] == "seated"
    assert seller.quote(2.0)["payment"] > 0


def test_what_was_done_is_not_done_again(shop):
    seller = shop.seller(shop.open(), *SOLD)
    assert [status(seller.accept), status(seller.quote, 2.0), status(seller.deliver, RECORD)] == [409] * 3
    assert status(seller.consent) == 409
    seller.withdraw()
    assert status(seller.menu) == 409


def test_a_token_that_was_altered_opens_nothing(shop):
    seller = shop.seller(shop.open(), "consent")
    for token in (seller.token[:-1], seller.token + "A", seller.token.swapcase(), "x", "ü" * 30, "a" * 5_000):
        answer = shop.http.get(
            shop.url + "/api/v1/me", headers={"Authorization": f"Bearer {token}".encode("latin-1")}
        )
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert token not in answer.text or token == "x"
    assert shop.request("GET", "/api/v1/me").status_code == 401
    answer = shop.request("GET", "/api/v1/me", headers={"Authorization": f"Basic {seller.token}"})
    assert answer.status_code == 401


def test_a_session_is_no_token_for_the_api(shop):
    with acting(shop.desk) as connection:
        buyer = Caller("operator", _member(connection, "operator"))
        token = issue_token(connection, "session", buyer, shop.clock())
    assert shop.request("GET", "/api/v1/campaigns", token).status_code == 401


def _member(connection, role):
    from dpmarket.market import tables

    return (
        connection.execute(sa.select(tables.member.c.id).where(tables.member.c.role == role))
        .scalars()
        .first()
    )


def test_what_is_somebody_elses_does_not_exist(shop):
    campaign, other = shop.open(), shop.open()
    seller = shop.seller(campaign, "consent")
    assert status(seller.campaign, other) == 404
    assert status(seller.totals, campaign) == 404
    for member in shop.members.values():
        assert status(member.me) == 404
        assert status(member.quote, 2.0) == 404
    for path in ("totals", "certificate", "model", "openings", "report", "market"):
        assert status(seller.get, f"/campaigns/{other}/{path}") == 404
    for act in ("open", "close", "cancel"):
        for caller in (seller, shop.paymaster, shop.operator):
            assert status(caller.post, f"/campaigns/{campaign}/{act}") == 404
    assert status(shop.buyer.get, "/payouts") == 404
    assert status(shop.operator.post, "/payouts", {"campaign": campaign}) == 404
    assert status(shop.paymaster.get, f"/campaigns/{campaign}") == 404
    assert status(shop.buyer.get, f"/campaigns/{campaign}/openings") == 404
    assert status(shop.paymaster.get, f"/payouts/{secrets.token_hex(16)}") == 404


def test_another_buyers_campaign_does_not_exist(shop):
    from dpmarket.web.setup import new_member

    campaign = shop.open()
    other = Client(shop.url, new_member(shop.desk, "Another", "buyer", shop.url).token, shop.http)
    for look in (other.campaign, other.totals, other.open_campaign):
        assert status(look, campaign) == 404
    assert other.get("/campaigns") == {"campaigns": []}
    told = {one["id"] for one in shop.buyer.get("/campaigns")["campaigns"]}
    assert campaign in told
    assert told == {one["id"] for one in shop.members["auditor"].get("/campaigns")["campaigns"]}


def test_who_enters_money_and_who_invites_is_set_up(shop, tmp_path):
    campaign = shop.draft()
    assert status(shop.buyer.fund, campaign, 5) == 404
    assert status(shop.buyer.invite, campaign, ["a"]) == 404
    assert shop.operator.fund(campaign, 5) == {"available": 5}
    with open_shop(tmp_path, funding="buyer", inviting="buyer") as other:
        mine = other.draft()
        assert other.buyer.fund(mine, 5) == {"available": 5}
        assert len(other.buyer.invite(mine, ["a"])) == 1
        assert status(other.buyer.invite, mine, ["b"], lifetime_epsilon=1e6) == 422
        assert status(other.members["auditor"].fund, mine, 5) == 404


def test_a_seller_does_not_see_a_debt_that_changes_by_what_others_are_paid(shop):
    campaign = shop.open()
    assert shop.seller(campaign).campaign(campaign)["debt"] is None
    assert shop.buyer.campaign(campaign)["debt"] == 0


def test_a_campaign_without_enough_money_is_not_opened(shop):
    campaign = shop.draft()
    with pytest.raises(Refused) as refusal:
        shop.buyer.open_campaign(campaign)
    assert refusal.value.status == 402
    assert refusal.value.problems == ({"where": "request", "kind": "funds"},)
    assert shop.buyer.campaign(campaign)["state"] == "draft"
    shop.paymaster.fund(campaign, 10_000)
    assert shop.buyer.open_campaign(campaign)["state"] == "open"
    assert status(shop.buyer.open_campaign, campaign) == 409


def test_a_campaign_with_quotes_is_not_cancelled_and_none_is_closed_early(shop):
    campaign = shop.open()
    assert status(shop.buyer.post, f"/campaigns/{campaign}/close") == 409
    shop.seller(campaign, "consent", "menu", "quote")
    assert status(shop.buyer.post, f"/campaigns/{campaign}/cancel") == 409
    empty = shop.open()
    assert shop.buyer.post(f"/campaigns/{empty}/cancel")["state"] == "cancelled"
    assert status(shop.paymaster.fund, empty, 5) == 409


def test_nobody_leaves_while_training_runs(shop):
    campaign = shop.open()
    seller = shop.seller(campaign, *SOLD)
    shop.clock.pass_(days=9)
    with acting(shop.desk) as connection:
        close_campaign(connection, campaign, shop.clock())
    with acting(shop.desk) as connection:
        begin_training(connection, campaign, shop.clock())
    assert status(seller.withdraw) == 409
    assert seller.me()["campaign_state"] == "training"
    with acting(shop.desk) as connection:
        settle_campaign(connection, campaign, shop.clock())
    assert seller.withdraw() == {"state": "withdrawn"}


def test_a_limit_without_room_makes_somebody_wait(shop):
    (token,) = shop.invite(shop.open(), lifetime_epsilon=1e-6)
    seller = shop.with_token(token)
    assert seller.consent() == {"state": "waiting"}
    assert seller.menu() == {"state": "waiting", "lease_until": None, "place": None, "menu": []}


def test_who_finds_no_room_waits_and_is_called(shop):
    campaign = shop.open(amount=400)
    sellers = [shop.seller(campaign, "consent") for _ in range(6)]
    seats = [seller.menu() for seller in sellers]
    assert seats[0]["state"] == "seated"
    assert len(seats[0]["menu"]) > 10
    assert seats[-1]["state"] == "waiting"
    assert status(sellers[-1].quote, 2.0) == 409
    waiting = [seat["place"] for seat in seats if seat["state"] == "waiting"]
    assert waiting == list(range(1, len(waiting) + 1))
    sellers[0].post("/me/decline")
    first = sellers[len(sellers) - len(waiting)]
    assert first.me()["state"] == "seated"


def test_a_full_disk_is_503_and_passes(tmp_path):
    full = False

    def _full(connection, _):
        if full:
            connection.execute("PRAGMA max_page_count = 1")  # no more pages than there are

    def listening(desk):
        event.listen(desk.ledger.engine, "connect", _full)

    with open_shop(tmp_path, prepared=listening) as shop:
        campaign = shop.open()
        seller = shop.seller(campaign, "consent", "menu")
        full = True
        names = [f"person {k} {'x' * 150}" for k in range(1_000)]
        body = {"people": names}
        path = f"/api/v1/campaigns/{campaign}/invitations"
        key = {"Idempotency-Key": secrets.token_hex(16)}
        answer = shop.request("POST", path, shop.tokens["operator"], json=body, headers=key)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        assert body_of(answer)["problems"] == [{"where": "service", "kind": "unavailable"}]
        assert str(tmp_path) not in answer.text
        assert seller.me()["state"] == "seated"
        full = False
        answer = shop.request("POST", path, shop.tokens["operator"], json=body, headers=key)
        assert answer.status_code == 201
        assert len(answer.json()["invitations"]) == 1_000
        assert seller.quote(2.0)["payment"] > 0
        shop.check()


def test_a_database_that_is_away_is_503_and_the_process_lives(tmp_path):
    with open_shop(tmp_path) as shop:
        ledger = tmp_path / "market.ledger"
        ledger.rename(tmp_path / "away")
        assert shop.request("GET", "/readyz").status_code == 503
        assert shop.request("GET", "/healthz").status_code == 200
        assert shop.request("GET", "/api/v1/me", "x" * 43).status_code == 503
        (tmp_path / "away").rename(ledger)
        assert shop.request("GET", "/readyz").json() == {"state": "ready"}


def test_an_error_that_nobody_expected_is_500_without_its_text(shop, monkeypatch):
    def fail(*_):
        raise RuntimeError("canary-of-an-error")

    monkeypatch.setattr("dpmarket.web.health.job_counts", fail)
    answer = shop.request("GET", "/readyz")
    assert answer.status_code == 500
    assert "canary" not in answer.text
    assert body_of(answer)["problems"] == []


def test_planning_that_is_impossible_is_422(shop):
    market = {**MARKET, "sellers": {}}
    campaign = shop.draft(market=market)
    shop.paymaster.fund(campaign, 1_000)
    assert status(shop.buyer.open_campaign, campaign) == 422


def test_payments_of_another_payout_are_refused(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        shop.seller(campaign, *SOLD)
        assert status(shop.paymaster.pay_out, campaign) == 409
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        paid = shop.paymaster.pay_out(campaign)
        assert status(shop.paymaster.confirm, paid["payout"]["id"], ["no such"]) == 422
        assert status(shop.paymaster.pay_out, campaign) == 409
