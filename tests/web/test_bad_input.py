"""Input that is wrong: refused with place and kind, not echoed, without a trace in the database."""

import contextlib
import json
import socket
import tracemalloc

import pytest
import sqlalchemy as sa

from dpmarket.campaign import schema
from support.shop import RULES, body_of

KEY = {"Idempotency-Key": "0123456789abcdef-key"}
HUGE = "1" + "0" * 400


@pytest.fixture(scope="module")
def reserved(shop):
    """Somebody at the menu, whom no bad request moves."""
    return shop.seller(shop.open(), "consent", "reserve")


def rows(shop):
    """Return how many rows each table has that a bad request could have filled."""
    names = (schema.sealed, schema.idempotency, schema.event, schema.campaign)
    with shop.market.look() as c:
        return [c.execute(sa.select(sa.func.count()).select_from(name)).scalar() for name in names]


def post(shop, token, path, content, **headers):
    return shop.request(
        "POST", path, token, content=content, headers={**KEY, "Content-Type": "application/json", **headers}
    )


@pytest.mark.parametrize(
    "cost",
    ["NaN", "Infinity", "1e999", '"nan"', "-1", "true", "null", HUGE, "[1]", '{"a":1}', '"2.5"', "-0.001"],
)
def test_what_is_no_cost_is_refused_and_not_echoed(shop, reserved, cost):
    before = rows(shop)
    answer = post(shop, reserved.token, "/api/v1/me/choose", f'{{"cost": {cost}}}')
    assert answer.status_code in (400, 422)
    told = body_of(answer)
    assert told["problems"][0]["where"].split(".")[0] == "body"
    if len(cost) > 3:
        assert cost.strip('"') not in answer.text
    assert rows(shop) == before
    assert reserved.me()["state"] == "reserved"


BODIES = {
    "a key twice": (b'{"cost": 1, "cost": 2}', "not json"),
    "utf-16": ('{"cost": 1}'.encode("utf-16"), "not json"),
    "utf-16 without a mark": ('{"cost": 1}'.encode("utf-16-le"), "not json"),
    "a byte order mark": ('{"cost": 1}'.encode("utf-8-sig"), "not json"),
    "deep lists": (b"[" * 5_000 + b"]" * 5_000, "not json"),
    "deep objects": (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "not json"),
    "half a character": (b'{"cost": "\\ud800"}', "not json"),
    "a text's end": (b'{"cost": "\\u0000"}', "not text"),
    "no json": (b"cost=1", "not json"),
    "half of it": (b'{"cost": 1', "not json"),
    "many digits": (f'{{"cost": {"9" * 5_000}}}'.encode(), "not json"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_is_not_json_is_refused(shop, reserved, name):
    body, kind = BODIES[name]
    before = rows(shop)
    answer = post(shop, reserved.token, "/api/v1/me/choose", body)
    assert answer.status_code == 400
    assert body_of(answer)["problems"] == [{"where": "body", "kind": kind}]
    assert rows(shop) == before


def test_a_bracket_in_a_text_is_not_depth(shop, reserved):
    body = json.dumps({"payee": "[" * 60}).encode()
    assert post(shop, reserved.token, "/api/v1/me/set_payee", body).status_code == 200


def test_a_large_body_without_a_length_is_refused_while_it_comes_and_not_kept(shop, reserved):
    host, port = shop.url.removeprefix("http://").split(":")
    head = (
        f"POST /api/v1/me/choose HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Authorization: Bearer {reserved.token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk, sent, answer = b"10000\r\n" + b" " * 0x10000 + b"\r\n", 0, b""
    tracemalloc.start()
    with (
        socket.create_connection((host, int(port)), timeout=30) as line,
        contextlib.suppress(ConnectionError),
    ):
        line.sendall(head.encode())
        while not answer and sent < 200 << 20:
            line.settimeout(10)
            line.sendall(chunk)
            sent += 0x10000
            line.settimeout(0.001)
            with contextlib.suppress(TimeoutError):
                answer = line.recv(4096)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent < 200 << 20
    assert peak < 20 << 20
    assert not answer or b" 413 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"features": {"secret-name": {"low": 1, "high": 2, "colour-x": 3}}}, "features.*.*"),
        ({"objective": {"payment_weight": 0.1, "budget": 5.0}}, "objective"),
    ],
)
def test_wrong_rules_are_refused_by_place_without_names_that_a_request_made_up(shop, rules, where):
    answer = drafted(shop, shop.times(), {**RULES, **rules})
    assert answer.status_code == 422
    assert {"where": f"body.rules.{where}", "kind": "rules"} in body_of(answer)["problems"]
    assert "secret-name" not in answer.text
    assert "colour-x" not in answer.text


def drafted(shop, times, rules):
    body = {"rules": rules, **dict(zip(("opens_at", "closes_at", "deliver_until"), times, strict=True))}
    return post(shop, shop.tokens["buyer"], "/api/v1/campaigns", json.dumps(body).encode())


@pytest.mark.parametrize("people", [[], [" blank"], ["a\nb"], ["a\u200bb"], [""], ["x" * 300], [3], "a"])
def test_people_who_cannot_be_told_apart_are_not_invited(shop, people):
    body = json.dumps({"ids": people}).encode()
    path = f"/api/v1/campaigns/{shop.open()}/invite"
    answer = post(shop, shop.tokens["operator"], path, body)
    assert answer.status_code == 422


def test_times_that_are_out_of_order_or_without_a_zone_are_refused(shop):
    opens, closes, until = shop.times()
    named = {**RULES, "campaign": {"name": "t", "mechanism": "online"}}
    for times in ((closes, opens, until), (opens, until, closes), (opens[:19], closes, until), "123"):
        assert drafted(shop, times, named).status_code == 422
