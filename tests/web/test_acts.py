"""Every act of the registry over HTTP: its role, its idempotency key, and what others see of it."""

import secrets

import httpx
import pytest

from dpmarket.campaign.acts import ACTS
from dpmarket.web.api import path_of_act, served_acts
from dpmarket.web.app import make_routes
from dpmarket.web.client import Client, Refused
from support.shop import RECORD, ROLES, SOLD, body_of


@pytest.fixture(scope="module")
def campaign(shop):
    return shop.open()


def calls(shop, campaign):
    """Give every served act with its address; a body is not needed to be refused."""
    for entry in served_acts().values():
        yield entry, "/api/v1" + path_of_act(entry).replace("{campaign}", campaign)


def test_acts_of_workers_and_of_files_are_not_served():
    served = set(served_acts())
    assert {name for name, entry in ACTS.items() if entry.roles == ("worker",)}.isdisjoint(served)
    assert {"import_reports", "enter_quotes_files", "enter_charge"}.isdisjoint(served)
    assert {"draft", "open", "fund", "invite", "choose", "deliver", "pay_out", "grant"} <= served


def test_every_act_answers_callers_without_its_role_as_if_it_were_not_there(shop, campaign):
    (seller,) = shop.invite(campaign)
    tokens = {**shop.tokens, "seller": seller}
    nowhere = "a" * 13
    seen = 0
    for entry, path in calls(shop, campaign):
        for role in (*ROLES, "seller"):
            if role in entry.roles:
                continue
            answers = [
                shop.request("POST", one, tokens[role], json={}, headers=key())
                for one in {path, path.replace(campaign, nowhere)}
            ]
            assert {answer.status_code for answer in answers} == {404}, (entry.name, role)
            assert len({answer.content for answer in answers}) == 1
            seen += 1
        assert shop.request("POST", path, headers=key()).status_code == 401
    assert seen > 80


def key():
    return {"Idempotency-Key": secrets.token_urlsafe(24)}


def test_every_act_is_in_the_document_and_needs_a_key(shop, campaign):
    document = make_routes().state.document
    for entry in served_acts().values():
        operation = document["paths"]["/api/v1" + path_of_act(entry)]["post"]
        (header,) = (one for one in operation["parameters"] if one["name"] == "Idempotency-Key")
        assert header["required"]
        assert operation["description"]
    answer = shop.request(
        "POST", f"/api/v1/campaigns/{campaign}/fund", shop.tokens["paymaster"], json={"amount": 5}
    )
    assert answer.status_code == 422
    assert body_of(answer)["problems"] == [{"where": "header.Idempotency-Key", "kind": "missing"}]


def test_a_key_of_another_seller_is_another_key_and_a_refusal_leaves_it_free(shop, campaign):
    same = secrets.token_urlsafe(24)
    first, second = (shop.seller(campaign, "consent") for _ in range(2))
    with pytest.raises(Refused):
        first.act("choose", key=same, cost=1.5)
    first.act("reserve")
    second.act("reserve")
    assert first.act("choose", key=same, cost=1.5)["payment"] > 0
    assert first.act("choose", key=same, cost=1.5)["payment"] > 0
    assert second.act("choose", key=same, cost=4.5) != first.act("choose", key=same, cost=1.5)


def test_the_client_asks_again_with_the_same_key_when_an_answer_is_lost(shop, campaign):
    seller = shop.seller(campaign, *SOLD[:4])
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
        Client(shop.url, seller.token, http).deliver(RECORD)
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert [one["kind"] for one in seller.get("/me/events")].count("delivered") == 1


def test_a_service_that_cannot_be_reached_is_one_refusal():
    with Client("http://127.0.0.1:9", "x") as client, pytest.raises(Refused, match="cannot be reached"):
        client.me()
