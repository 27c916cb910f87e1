"""``dpmarket demo --service``: a whole market over HTTP that stops by itself."""

import json

import pytest

from dpmarket.web.demo import run_service_demo
from support.commands import run
from support.ledgers import new_database, postgres_server


def looks_right(done, people):
    assert done["people"] == people
    assert done["sold"] > people // 5
    assert done["receipts_hold"] == done["receipts"] == done["sold"]
    assert done["withdrew"] > 0
    assert done["lapsed"] > 0
    assert done["declined"] > 0
    assert done["liars"] > 0
    assert done["largest_gain"] <= 1
    assert done["retried"] > 0
    assert done["done_twice"] == 0
    assert done["books"] is True
    assert done["escrow"] == done["paid"] + done["refunded"]


def test_a_small_market_over_http_keeps_every_promise(tmp_path):
    done = json.loads(run("demo", "--service", "--people", "20", "--json", cwd=tmp_path).stdout)
    looks_right(done, 20)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_two_hundred_people_over_http_on_postgresql(tmp_path):
    with postgres_server(tmp_path) as server:
        done = run_service_demo(200, place=new_database(server))
    assert done.good
    assert done.waiting > 0
    looks_right(dict(vars(done)), 200)
