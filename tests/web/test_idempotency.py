"""The same key with the same request: done once, answered again; nothing of the answer is in clear."""

import secrets
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from dpmarket.ledger import balance_of, reading
from dpmarket.market import tables
from dpmarket.web.app import make_routes
from dpmarket.web.client import Refused
from support.shop import RECORD, SOLD, body_of

MONEY = [
    "campaigns/{campaign_id}/fund", "campaigns/{campaign_id}/refund", "campaigns/{campaign_id}/invitations",
    "me/quote", "me/report", "me/acceptance", "me/decline", "me/payee", "me/withdrawal",
    "payouts", "payouts/{payout_id}/confirmation",
]  # fmt: skip


def key():
    return secrets.token_urlsafe(24)


def test_every_post_that_changes_something_takes_a_key_and_where_money_moves_it_is_required():
    document = make_routes().state.document
    posts = {path: item["post"] for path, item in document["paths"].items() if "post" in item}
    needed = {}
    without = []
    for path, operation in posts.items():
        headers = [one for one in operation["parameters"] if one["name"] == "Idempotency-Key"]
        for header in headers:
            needed[path.removeprefix("/api/v1/")] = header["required"]
        if not headers:
            without.append(path.removeprefix("/api/v1/"))
    assert without == ["payouts/{payout_id}/bank-file"]  # it changes nothing, and keeps no account of anybody
    assert sorted(path for path, is_needed in needed.items() if is_needed) == sorted(MONEY)
    assert len(needed) > len(MONEY)


def test_without_a_key_money_does_not_move(shop):
    campaign = shop.draft()
    path = f"/api/v1/campaigns/{campaign}/fund"
    answer = shop.request("POST", path, shop.tokens["paymaster"], json={"amount": 5})
    assert answer.status_code == 422
    assert body_of(answer)["problems"] == [{"where": "header.Idempotency-Key", "kind": "missing"}]


def test_money_that_is_entered_again_with_its_key_is_entered_once(shop):
    campaign, same = shop.draft(), key()
    answers = [shop.paymaster.fund(campaign, 500, same) for _ in range(3)]
    assert answers == [{"available": 500}] * 3
    assert shop.paymaster.fund(campaign, 500) == {"available": 1_000}
    with pytest.raises(Refused) as refusal:
        shop.paymaster.fund(campaign, 501, same)
    assert refusal.value.status == 409
    assert refusal.value.problems == ({"where": "request", "kind": "reused"},)
    with reading(shop.desk.ledger) as connection:
        assert balance_of(connection, campaign).funded == 1_000


def test_a_seller_who_sends_everything_twice_sells_once(shop):
    seller = shop.seller(shop.open())
    keys = [key() for _ in range(4)]
    seller.consent()
    for _ in range(2):
        menu = seller.menu(keys[0])
        offer = seller.quote(2.0, keys[1])
        assert seller.accept(keys[2]) == {"state": "accepted"}
        assert seller.deliver(RECORD, keys[3]) == {"state": "delivered"}
    assert menu["state"] == "seated"
    assert offer == seller.get("/me/quote")
    assert seller.events() == ["invited", "consented", "seated", "quoted", "accepted", "delivered"]
    shop.check()


def test_a_key_of_somebody_else_is_another_key(shop):
    campaign, same = shop.open(), key()
    first, second = (shop.seller(campaign, "consent", "menu") for _ in range(2))
    assert first.quote(1.5, same) != second.quote(3.0, same)


def test_a_refusal_leaves_the_key_free(shop):
    seller, same = shop.seller(shop.open(), "consent"), key()
    with pytest.raises(Refused):
        seller.quote(2.0, same)
    seller.menu()
    assert seller.quote(2.0, same)["payment"] > 0


def test_invitations_are_told_again_for_their_key_and_no_token_is_in_clear(shop):
    campaign, same = shop.open(), key()
    path = f"/campaigns/{campaign}/invitations"
    first = shop.operator.post(path, {"people": ["u", "v"]}, same)
    assert shop.operator.post(path, {"people": ["u", "v"]}, same) == first
    assert shop.operator.post(path, {"people": ["u", "v"]}) == {"invitations": []}
    tokens = [one["token"] for one in first["invitations"]]
    with reading(shop.desk.ledger) as connection:
        kept = list(connection.execute(sa.select(tables.idempotency.c.response)).scalars())
    assert kept
    assert not any(token in text for token in tokens for text in kept)


def test_twenty_acceptances_at_once_are_one(shop):
    seller, same = shop.seller(shop.open(), "consent", "menu", "quote"), key()
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: seller.accept(same), range(20)))
    assert answers == [{"state": "accepted"}] * 20
    assert seller.events().count("accepted") == 1


def test_twenty_acceptances_at_once_with_keys_of_their_own_are_one(shop):
    seller = shop.seller(shop.open(), "consent", "menu", "quote")

    def accept(_):
        try:
            return seller.accept()["state"]
        except Refused as refusal:
            return refusal.status

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(accept, range(20)))
    assert sorted(map(str, answers)) == ["409"] * 19 + ["accepted"]
    shop.check()


def test_the_client_asks_again_with_the_same_key_when_an_answer_is_lost(shop):
    import httpx

    from dpmarket.web.client import Client

    seller = shop.seller(shop.open(), *SOLD[:3])
    sent = []

    class Losing(httpx.HTTPTransport):
        def handle_request(self, request):
            answer = super().handle_request(request)
            sent.append(request.headers.get("idempotency-key"))
            if len(sent) == 1:
                answer.read()
                raise httpx.ReadError("the line was cut after the answer was made")
            return answer

    with httpx.Client(transport=Losing(), trust_env=False) as http:
        assert Client(shop.url, seller.token, http).accept() == {"state": "accepted"}
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert seller.events().count("accepted") == 1


def test_a_service_that_cannot_be_reached_is_told_in_one_line():
    from dpmarket.web.client import Client

    with Client("http://127.0.0.1:9", "x") as client, pytest.raises(Refused, match="cannot be reached"):
        client.me()
