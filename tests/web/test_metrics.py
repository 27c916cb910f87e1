"""Logs and metrics tell routes, statuses and times, and no path."""

import io
import json
import logging

import pytest
from prometheus_client import generate_latest

from dpmarket.web.logs import JsonLines, log_to
from outside.driver import until
from support.shop import open_shop


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


def line_of(logged, request):
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    return next((line for line in lines if line.get("request") == request), None)


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
