"""Logs and metrics tell routes, statuses and times; a cost, a record, a token is nowhere in clear."""

import io
import json
import logging
import struct
import tempfile
import time

import pytest
from prometheus_client import generate_latest

from dpmarket.web.logs import JsonLines, log_to
from support.shop import open_shop

COST = 2.71828182845
AGE = 41.98765432101
RECORD = {"age": AGE, "income": 27_182.8182, "bought": "yes"}
PAYEE = "canary account 4711"
PANEL = "canary person 0815"
CANARIES = [
    str(COST), struct.pack("<d", COST), struct.pack(">d", COST), str(AGE), struct.pack("<d", AGE),
    struct.pack(">d", AGE), str(RECORD["income"]), struct.pack("<d", RECORD["income"]), PAYEE, PANEL,
]  # fmt: skip


@pytest.fixture
def logged():
    """What is logged, as text; the loggers are put back."""
    names = ("", "dpmarket.web", "uvicorn", "uvicorn.error", "uvicorn.access")
    before = {name: (logging.getLogger(name).handlers, logging.getLogger(name).level) for name in names}
    stream = io.StringIO()
    log_to(stream)
    yield stream
    for name, (handlers, level) in before.items():
        logging.getLogger(name).handlers = handlers
        logging.getLogger(name).setLevel(level)


def found_in(content, canaries):
    data = content if isinstance(content, bytes) else content.encode()
    return [one for one in canaries if (one if isinstance(one, bytes) else one.encode()) in data]


def files_under(*folders):
    return [path for folder in folders for path in folder.rglob("*") if path.is_file()]


def until(look):
    """Return what there is to see, soon: lines and counts are written after the answer was sent."""
    for _ in range(200):
        found = look()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


def line_of(logged, request):
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    return next((line for line in lines if line.get("request") == request), None)


@pytest.mark.parametrize("mechanism", ["online", "offline"])
def test_no_value_is_in_a_log_a_metric_an_error_a_file_or_the_database(
    tmp_path, monkeypatch, logged, mechanism
):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    folder = tmp_path / "shop"
    folder.mkdir()
    with open_shop(folder) as shop:
        campaign = shop.open(mechanism, amount=100_000)
        (invited,) = shop.members["operator"].invite(campaign, [PANEL])
        tokens = [invited["token"], *shop.tokens.values()]
        seller = shop.with_token(invited["token"], "consent")
        answers = []
        for path, body in [
            ("choose", {"cost": f"{COST}"}),
            ("choose", {"cost": COST, str(COST): 1}),
            ("deliver", {"values": RECORD}),
            ("deliver", {"values": {str(AGE): AGE}}),
            ("set_payee", {"payee": [PAYEE]}),
        ]:
            headers = {"Idempotency-Key": f"{COST}-{PAYEE}-0123456789"}
            answers.append(
                shop.request("POST", f"/api/v1/me/{path}", seller.token, json=body, headers=headers)
            )
        answers.append(shop.request("GET", f"/api/v1/campaigns/{invited['token']}", seller.token))
        answers.append(shop.request("POST", f"/i/{invited['token']}x?cost={COST}", seller.token))
        answers.append(shop.request("GET", f"/{invited['token']}", seller.token))
        assert all(answer.status_code >= 400 for answer in answers)
        shop.request("POST", f"/i/{invited['token']}")
        if mechanism == "online":
            seller.act("reserve")
            seller.act("choose", cost=COST)
        else:
            seller.act("report", cost=COST)
            shop.clock.pass_(days=7)
            shop.work()
        seller.act("accept")
        seller.deliver(RECORD)
        seller.act("set_payee", payee=PAYEE)
        metrics = generate_latest(shop.metrics.registry)
        kept = {path: path.read_bytes() for path in files_under(folder, temporary)}
        assert any(path.name.endswith("-wal") and content for path, content in kept.items())
        shop.clock.pass_(days=9)
        shop.work()
        assert seller.me()["state"] == "spent"
        kept |= {
            path.with_name(path.name + ".later"): path.read_bytes() for path in files_under(folder, temporary)
        }
        secret = [*CANARIES, *tokens]
        for answer in answers:
            assert found_in(answer.content, secret) == []
        assert found_in(metrics, secret) == []
        assert found_in(logged.getvalue(), secret) == []
        for path, content in kept.items():
            assert found_in(content, secret) == [], path
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    routes = {line["route"] for line in lines if "route" in line}
    assert "/api/v1/me/accept" in routes
    assert "/i/{token}" in routes
    assert "none" in routes  # what is no route is not told by its path


def test_a_request_is_one_line_with_route_status_time_and_kind(shop, logged):
    seller = shop.seller(shop.open())
    answer = shop.request("GET", "/api/v1/me/receipt", seller.token)
    line = until(lambda: line_of(logged, answer.headers["x-request-id"]))
    assert (line["method"], line["route"], line["status"]) == ("GET", "/api/v1/me/receipt", 404)
    assert line["error"] == "unknown"
    assert line["ms"] > 0.0
    assert set(line) == {"time", "level", "request", "method", "route", "status", "ms", "error"}


def test_of_other_peoples_messages_only_the_template_is_written():
    record = logging.LogRecord("uvicorn.error", logging.ERROR, "", 0, "bad path %s", ("/i/token",), None)
    assert json.loads(JsonLines().format(record))["event"] == "bad path %s"
    try:
        raise ValueError("canary")
    except ValueError:
        import sys

        record.exc_info = sys.exc_info()
    line = JsonLines().format(record)
    assert json.loads(line)["error"] == "ValueError"
    assert "canary" not in line


def test_requests_are_counted_by_template_and_the_market_is_looked_at(tmp_path):
    with open_shop(tmp_path) as shop:
        shop.metrics.watch_market(shop.market)
        campaign = shop.open()
        shop.members["buyer"].campaign(campaign)
        route = "/api/v1/campaigns/{campaign}"
        count = f'dpmarket_requests_total{{method="GET",route="{route}",status="200"}} 1.0'
        until(lambda: count in generate_latest(shop.metrics.registry).decode())
        text = generate_latest(shop.metrics.registry).decode()
        assert f'dpmarket_request_seconds_count{{method="GET",route="{route}"}} 1.0' in text
        assert 'dpmarket_jobs{kind="close",state="waiting"} 1.0' in text
        assert "dpmarket_books_balanced 1.0" in text
        assert "dpmarket_campaigns_unpaid 0.0" in text
        assert "dpmarket_database_up 1.0" in text
        assert campaign not in text
        (tmp_path / "data" / "market.db").rename(tmp_path / "away")
        shop.market.engine.dispose()
        assert "dpmarket_database_up 0.0" in generate_latest(shop.metrics.registry).decode()
        (tmp_path / "away").rename(tmp_path / "data" / "market.db")
