"""A person's limit over campaigns, through the API and on a page: held while one is open, then spent."""

import pytest

from dpmarket.market import work
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
    there = shop.with_token(tokens[1])
    assert there.consent() == {"state": "waiting"}  # the first could still ask for all that it holds
    assert there.menu()["state"] == "waiting"
    assert there.get("/me/statement")["held"] == ceiling
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
    lines = after.get("/me/statement")["campaigns"]
    assert "spent" in [line["state"] for line in lines]
    assert sum(line["spent"] for line in lines) == told["spent"]
    assert sum(line["held"] for line in lines) == after.me()["held"]
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
    assert sorted(line["held"] for line in told["campaigns"]) == [0.0, ceiling]


def test_a_link_to_one_campaign_tells_no_payment_of_another(shop):
    tokens = [shop.operator.invite(shop.open(), ["in both"])[0]["token"] for _ in range(2)]
    clients = [shop.with_token(token, *SOLD[:3]) for token in tokens]
    payment = clients[0].get("/me/quote")["payment"]
    lines = clients[0].get("/me/statement")["campaigns"]
    lines.sort(key=lambda line: not line["is_this"])
    assert [(line["is_this"], line["payment"]) for line in lines] == [(True, payment), (False, None)]
    assert [line["title"] is None for line in lines] == [False, True]
    other = shop.seller(shop.open(), "consent")
    assert [line["is_this"] for line in other.get("/me/statement")["campaigns"]] == [True]


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
    assert told["campaigns"][0]["title"] in seen.text
    shown = f"{epsilon_shown(told['held']):g}"
    assert shown.replace(".", "," if language == "de" else ".") in seen.text
