"""The whole way of a seller through the pages, without a script."""

import pytest

from support.readers import seller_of

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`


def taken(reader, *, until="record"):
    """Go from the invitation as far as asked for; return the page."""
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    if until == "consented":
        return page
    page = reader.press(page, "/s/reserve")
    if until == "choose":
        return page
    page = reader.press(page, "/s/choose")
    if until == "offer":
        return page
    return reader.press(page, "/s/accept")


def test_where_nothing_is_bought_at_a_cost_it_is_said(shop):
    reader = seller_of(shop, shop.open())
    page = taken(reader, until="choose")
    page = reader.press(page, "/s/choose", 1, amount="1000.5")
    assert page.heading == "Is this the amount you mean?"
    page = reader.press(page, "/s/choose")
    assert page.heading == "There is no offer for you"


def test_what_was_done_in_one_tab_is_refused_in_the_other_and_changes_nothing(shop):
    reader = seller_of(shop, shop.open())
    offer = taken(reader, until="offer")
    other = reader.see("/s")
    assert reader.press(offer, "/s/decline").heading == "You said no"
    late = reader.press(other, "/s/accept")
    assert late.status == 409
    assert late.heading == "This is not possible now"
    assert "/s" in late.links
    assert reader.see("/s").heading == "You said no"


def test_leaving_says_its_exact_effect_and_has_it(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    assert "You have no offer yet." in reader.see("/s/withdraw").text
    offer = taken(reader, until="offer")
    assert "Your offer becomes void" in reader.see("/s/withdraw").text
    page = reader.press(offer, "/s/accept")
    reader.press(page, "/s/deliver", f0="40", f1="20000", f2="yes")
    page = reader.see("/s/withdraw")
    assert "Your sealed answers are deleted at once" in page.text
    assert reader.press(page, "/s/withdraw").heading == "You have withdrawn"
    assert "no further invitations" in reader.see("/s/withdraw").text
    shop.check()
