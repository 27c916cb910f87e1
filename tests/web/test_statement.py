"""A person's limit over campaigns, through the API and on a page: held while one is open, then spent."""

import pytest

from dpmarket.market import work
from dpmarket.market.accounts import in_tenths
from dpmarket.market.people import on_grid
from dpmarket.web.pages.meaning import epsilon_shown
from support.readers import Reader
from support.shop import SOLD


def ended(shop):
    """Let all campaigns end."""
    shop.clock.pass_(days=10)
    work(shop.desk, shop.clock())


def test_the_ceiling_is_held_while_a_campaign_is_open_and_what_was_spent_counts_afterwards(shop):
    first, second = shop.open(), shop.open()
    ceiling = shop.seller(first, "consent").me()["held"]
    cap = 1.5 * ceiling
    tokens = [
        shop.operator.invite(one, ["over two"], lifetime_epsilon=cap)[0]["token"] for one in (first, second)
    ]
    here = shop.with_token(tokens[0], *SOLD, cost=3.0)
    told = here.get("/me/statement")
    assert (told["limit"], told["held"], told["spent"], told["left"]) == (cap, ceiling, 0.0, cap - ceiling)
    assert (told["others_held"], told["others_spent"]) == (0.0, 0.0)
    there = shop.with_token(tokens[1])
    assert there.consent() == {"state": "waiting"}  # the first could still ask for all that it holds
    assert there.menu()["state"] == "waiting"
    assert there.get("/me/statement")["held"] == there.me()["held"] == in_tenths(ceiling, cap)
    ended(shop)
    told = here.get("/me/statement")
    promised = here.get("/me/quote")["epsilon"]
    assert told["held"] == 0.0
    assert 0.0 < told["spent"] <= promised + 2**-30
    assert told["left"] == cap - told["spent"]
    third = shop.open()
    after = shop.with_token(shop.operator.invite(third, ["over two"])[0]["token"], "consent")
    assert after.me()["state"] == ("consented" if told["left"] >= ceiling else "waiting")
    assert after.me()["limit"] == cap  # no later invitation raises it
    now = after.get("/me/statement")
    assert now["others_spent"] == now["spent"] == in_tenths(told["spent"], cap)
    assert now["campaign"]["held"] == now["held"] == after.me()["held"]
    shop.check()


def test_who_waited_for_their_limit_goes_on_when_another_campaign_has_ended(shop):
    first, second = shop.open(), shop.open()
    ceiling = shop.seller(first, "consent").me()["held"]
    tokens = [
        shop.operator.invite(one, ["goes on"], lifetime_epsilon=1.2 * ceiling)[0]["token"]
        for one in (first, second)
    ]
    here, there = shop.with_token(tokens[0], "consent"), shop.with_token(tokens[1], "consent")
    assert there.me()["state"] == "waiting"
    here.withdraw()
    assert there.menu()["state"] == "seated"
    told = there.get("/me/statement")
    assert (told["campaign"]["held"], told["others_held"]) == (ceiling, 0.0)


def test_a_link_to_one_campaign_tells_nothing_of_another_but_tenths_of_the_limit(shop):
    """Whatever somebody was promised and gave elsewhere, what another link shows is the same."""
    first, second = shop.open(), shop.open()
    told = []
    for name, cost in (("gives much", 1.0), ("gives little", 3.0)):
        here, there = (
            shop.operator.invite(one, [name], lifetime_epsilon=40.0)[0]["token"] for one in (first, second)
        )
        shop.with_token(here, *SOLD, cost=cost)
        told.append((shop.with_token(here), shop.with_token(there)))
    ended(shop)
    gave = [here.get("/me/statement")["spent"] for here, _ in told]
    assert gave[0] != gave[1]
    statements = [there.get("/me/statement") for _, there in told]
    for one in statements:
        one["campaign"].pop("made_at")
    assert statements[0] == statements[1]
    assert statements[0]["others_spent"] == statements[0]["spent"] == 4.0  # a tenth of the limit
    assert statements[0]["left"] == 36.0
    assert told[0][1].me()["spent"] == told[1][1].me()["spent"] == 4.0
    reader = Reader(shop, "en")
    reader.enter(f"/i/{there}")
    assert f"{epsilon_shown(gave[1]):g}" not in reader.see("/s/statement").text
    assert f"{epsilon_shown(gave[1]):g}" not in reader.see("/s").text


def test_limits_are_shown_in_tenths_and_what_is_left_never_too_large():
    assert [in_tenths(amount, 2.0) for amount in (0.0, 1e-9, 0.2, 0.21, 1.9, 2.5)] == [0, 0.2, 0.2, 0.4, 2, 2]
    # What is held was rounded up to a grid: three tenths of a limit stay three tenths.
    assert [in_tenths(on_grid(cap * 0.3), cap) for cap in (1.0, 3.0, 7.0)] == [0.3, 3 * 3 / 10, 7 * 3 / 10]
    held = 9 * on_grid(0.1)  # of nine campaigns
    assert held > 0.9
    assert in_tenths(held, 1.0) == 0.9


@pytest.mark.parametrize(("language", "words"), [("en", "Left for others"), ("de", "Übrig für andere")])
def test_the_page_says_what_is_held_used_and_left(shop, language, words):
    campaign = shop.open()
    (token,) = shop.invite(campaign)
    told = shop.with_token(token, *SOLD).get("/me/statement")
    reader = Reader(shop, language)
    reader.enter(f"/i/{token}")
    assert "/s/statement" in reader.see("/s").links
    seen = reader.see("/s/statement")
    assert seen.status == 200
    assert words in seen.text
    assert told["campaign"]["title"] in seen.text
    shown = f"{epsilon_shown(told['held']):g}"
    assert shown.replace(".", "," if language == "de" else ".") in seen.text
