"""Another site's page can neither send any form of ours nor show any page of ours in a frame."""

import pytest
from dpmarket.market import work

from dpmarket.ledger import reading
from dpmarket.web import signing
from dpmarket.web.pages import (
    buying,
    choosing,
    delivering,
    language,
    paying,
    selling,
    serving,
    verifying,
    watching,
)
from support.readers import Reader, again, member_of
from support.shop import SOLD, open_shop

PARTS = (selling, choosing, delivering, buying, watching, paying, verifying, serving, language, signing)
ROUTES = [(method, route.path) for part in PARTS for route in part.router.routes for method in route.methods]
FORMS = sorted(path for method, path in ROUTES if method == "POST")
PAGES = sorted(path for method, path in ROUTES if method == "GET")
FOREIGN = [
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://elsewhere.example"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "null"},
]


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A service with a released campaign and its payout; for every home the reader who is signed in there."""
    with open_shop(tmp_path_factory.mktemp("foreign")) as shop:
        campaign = shop.open()
        tokens = shop.invite(campaign, 4)
        for token in tokens:
            shop.with_token(token, *SOLD)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        payout = shop.paymaster.pay_out(campaign)["payout"]["id"]
        seller = Reader(shop)
        seller.enter(f"/i/{tokens[0]}")
        readers = {"/s": seller, "/b": member_of(shop, "auditor"), "/p": member_of(shop, "paymaster")}
        values = {
            "campaign_id": campaign,
            "payout_id": payout,
            "token": tokens[1],
            "name": "de",
        }
        yield shop, readers, values


def path_of(route, values):
    return route.format(**{**values, **({"name": "certificate"} if "{name}.json" in route else {})})


def reader_at(readers, route):
    return next((one for home, one in readers.items() if route.startswith(home)), readers["/s"])


def rows(shop):
    """Return all that is in the database."""
    with reading(shop.desk.ledger) as connection:
        names = (
            connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars().all()
        )
        return {name: connection.exec_driver_sql(f'SELECT * FROM "{name}"').all() for name in names}


def test_there_are_as_many_forms_and_pages_as_people_see():
    assert len(FORMS) >= 20
    assert len(PAGES) >= 20
    assert {"/p/{campaign_id}/refund", "/b/{campaign_id}/invitations", "/p/payout/{payout_id}.xml"} <= set(
        FORMS
    )


@pytest.mark.parametrize("route", FORMS)
def test_no_form_is_taken_from_another_site(signed, route):
    shop, readers, values = signed
    path, headers = path_of(route, values), reader_at(readers, route).headers
    before = rows(shop)
    for foreign in FOREIGN:
        answer = shop.request("POST", path, data={"key": "k" * 20}, headers={**headers, **foreign})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
    assert rows(shop) == before


def test_the_same_form_from_this_site_gets_beyond_the_guard(signed):
    shop, readers, values = signed
    own = {"Sec-Fetch-Site": "same-origin", "Origin": shop.url}
    for route in FORMS:
        headers = {**reader_at(readers, route).headers, **own}
        if not route.startswith(("/i/", "/login/", "/sign-out")):  # these do something
            assert shop.request("POST", path_of(route, values), headers=headers).status_code in (404, 422)


@pytest.mark.parametrize("route", PAGES)
def test_no_page_is_shown_in_a_frame(signed, route):
    shop, readers, values = signed
    headers = again(reader_at(readers, route)).headers
    answer = shop.request("GET", path_of(route, values), headers=headers)
    assert answer.status_code in (200, 303, 404)
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
