"""Lines of docs/explanation/outcomes.md over HTTP: what bad input or a fault leads to, to the field."""

import gzip
import json
import secrets
import sqlite3
from datetime import timedelta
from fractions import Fraction

import pytest

from dpmarket.ledger import balance_of, reading
from dpmarket.market import work
from dpmarket.web.client import Refused
from support.shop import SOLD, body_of, open_shop

MODEL = {
    "schema", "dpmarket", "id_column", "label_column", "labels", "features", "radius", "outside_bounds",
    "records", "description", "intercept_scaling", "shrinkage_correction", "secure_noise", "encoder",
}  # fmt: skip


def status(act, *values):
    with pytest.raises(Refused) as refusal:
        act(*values)
    return refusal.value.status


def test_the_answer_with_a_model_has_exactly_the_allowed_fields(tmp_path):
    """What is published is the model, what using it needs, and what an outsider checks it by."""
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for cost in (1.5, 2.0, 2.5):
            shop.seller(campaign, *SOLD, cost=cost)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock.now)
        model = shop.buyer.model(campaign)
        assert set(model) == MODEL
        assert "person " not in json.dumps(model)  # as everybody here is called
        assert len(model["description"]["cells"][0]) == 3  # an intercept and two features


def test_a_connection_that_is_lost_after_commit_makes_no_second_transfer(tmp_path, monkeypatch):
    """The database has committed, and who asked never learns it: 503, and the same key tells the answer."""
    with open_shop(tmp_path) as shop:
        campaign, key = shop.draft(), secrets.token_hex(16)
        engine = shop.desk.ledger.engine
        real, lost = engine.dialect.do_commit, []

        def lose(connection):
            real(connection)
            entered = connection.execute("SELECT count(*) FROM transfer").fetchone()[0]
            if entered and not lost:
                lost.append(connection)
                raise sqlite3.OperationalError("the line was cut")

        monkeypatch.setattr(engine.dialect, "do_commit", lose)
        body, headers = {"amount": 500}, {"Idempotency-Key": key}
        path = f"/api/v1/campaigns/{campaign}/fund"
        answer = shop.request("POST", path, shop.tokens["paymaster"], json=body, headers=headers)
        assert (answer.status_code, len(lost)) == (503, 1)
        assert shop.paymaster.fund(campaign, 500, key) == {"available": 500}
        with reading(shop.desk.ledger) as connection:
            assert balance_of(connection, campaign).funded == 500
        shop.check()


def test_a_cost_below_the_support_is_quoted_as_its_lower_end_and_one_above_nothing(shop):
    campaign = shop.open()
    quotes = [shop.seller(campaign, *SOLD[:2]).quote(cost) for cost in (0.0, 0.25, 1.0, 5.5, 1e6)]
    told = [(quote["epsilon"], quote["payment"]) for quote in quotes]
    assert told[0] == told[1] == told[2]
    assert told[2][1] > 0
    assert told[3:] == [(0.0, 0)] * 2


def test_the_same_cost_at_two_times_is_the_same_quote_whoever_came_between(shop):
    campaign = shop.open(amount=60_000)
    first = shop.seller(campaign, *SOLD[:2]).quote(2.25)
    for cost in (1.0, 3.0, 4.5):
        shop.seller(campaign, *SOLD, cost=cost)
    shop.clock.pass_(days=3)
    again = shop.seller(campaign, *SOLD[:2]).quote(2.25)
    assert (first["epsilon"], first["payment"]) == (again["epsilon"], again["payment"])
    assert Fraction(first["payment"], 100) >= Fraction(2.25) * Fraction(first["epsilon"])
    shop.clock.pass_(days=-3)


@pytest.mark.parametrize("mechanism", ["online", "offline"])
def test_who_withdrew_reports_nothing_any_more(shop, mechanism):
    seller = shop.seller(shop.open(mechanism, 2_000_000), "consent")
    if mechanism == "online":
        seller.menu()
    seller.withdraw()
    assert status(seller.quote, 2.0) == 409
    assert seller.me()["state"] == "withdrawn"


def test_the_same_identity_twice_is_one_person_and_consents_once(shop):
    campaign = shop.open()
    name = f"twice {secrets.token_hex(4)}"
    (first,) = shop.operator.invite(campaign, [name])
    assert shop.operator.invite(campaign, [name]) == []
    seller = shop.with_token(first["token"], "consent")
    assert status(seller.consent) == 409


def test_an_altered_link_to_a_quote_is_404_and_the_quote_stays(tmp_path):
    """A quote has no number of its own: what names it is the link."""
    with open_shop(tmp_path) as shop:
        seller = shop.seller(shop.open(), *SOLD[:3])
        quote = seller.get("/me/quote")
        for altered in (seller.token[:-1], seller.token + "A", seller.token.swapcase()):
            answer = shop.request("POST", f"/i/{altered}")
            assert answer.status_code == 404
            assert "set-cookie" not in answer.headers
            assert seller.token not in answer.text
        assert seller.get("/me/quote") == quote
        assert seller.accept()["state"] == "accepted"


def test_bombs_are_refused_before_they_are_opened(shop):
    seller = shop.seller(shop.open(), *SOLD[:4])

    def answered(body, **headers):
        headers = {"Content-Type": "application/json", "Idempotency-Key": secrets.token_hex(16), **headers}
        answer = shop.request("POST", "/api/v1/me/record", seller.token, content=body, headers=headers)
        body_of(answer)
        return answer.status_code

    bomb = gzip.compress(bytes(200_000_000))
    assert len(bomb) < 250_000
    assert answered(bomb, **{"Content-Encoding": "gzip"}) == 415
    assert answered(bomb) == 400
    assert answered(b"[" * 100_000) == 400
    columns = ",".join(f'"c{k}":1' for k in range(1_000_000))
    assert answered(f'{{"values":{{{columns}}}}}'.encode()) == 413
    assert answered(f'{{"values":{{{columns[:500_000].rpartition(",")[0]}}}}}'.encode()) in (400, 422)
    assert seller.me()["state"] == "accepted"


def test_a_seat_and_a_quote_end_by_the_services_clock(shop):
    """A quote is gone when its hours are over, and its money is free for others."""
    campaign = shop.open()
    seller = shop.seller(campaign, *SOLD[:3])
    shop.clock.pass_(hours=49)
    assert status(seller.accept) == 410
    shop.clock.now -= timedelta(hours=49)
