"""What a seller reads in each state that ends or holds up their way, and that every one has a way on."""

import re

import pytest
from dpmarket.market import acting, begin_training, close_campaign, train_campaign, work

from dpmarket.errors import FileProblem
from dpmarket.privacy import noise
from support.readers import Reader, again, seller_of
from support.shop import SOLD, open_shop


def reader_of(shop, token):
    reader = Reader(shop)
    reader.enter(f"/i/{token}")
    return reader


def sold(shop, campaign, number=4):
    """Have some sell; return readers of their pages."""
    tokens = shop.invite(campaign, number)
    for token in tokens:
        shop.with_token(token, *SOLD)
    return [reader_of(shop, token) for token in tokens]


def test_who_comes_too_late_reads_that_nothing_was_used(shop):
    reader = seller_of(shop, shop.open())
    shop.clock.pass_(days=7)
    page = again(reader).see("/s")
    assert page.heading == "This is over"
    assert "Nothing of yours was used" in page.text
    assert [form["action"] for form in page.forms] == ["/sign-out"]


def test_who_finds_no_room_waits_and_is_asked_for_nothing(shop):
    campaign = shop.open(amount=400)
    for _ in range(5):
        shop.seller(campaign, "consent", "menu")
    reader = seller_of(shop, campaign)
    page = reader.press(reader.press(reader.see("/s/consent"), "/s/consent"), "/s/seat")
    assert page.heading == "There is no room at the moment"
    assert "You are asked for nothing meanwhile" in page.text
    assert {"/s/seat", "/s/decline"} <= {form["action"] for form in page.forms}


def test_who_has_no_room_in_their_own_limit_reads_that(shop):
    (token,) = shop.invite(shop.open(), lifetime_epsilon=1e-6)
    reader = reader_of(shop, token)
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    assert page.heading == "Your own limit is reached"


def test_who_left_reads_what_became_of_it_and_finds_no_way_back(shop):
    campaign = shop.open()
    (reader,) = sold(shop, campaign, 1)
    page = reader.press(reader.see("/s/withdraw"), "/s/withdraw")
    assert page.heading == "You have left"
    assert "what you sent is deleted" in page.text
    assert [form["action"] for form in page.forms] == ["/sign-out"]
    assert reader.see("/s/choose").heading == "You have left"
    assert reader.see("/s/record").heading == "You have left"


def test_while_training_runs_nobody_can_leave_and_everybody_is_told_that_they_are_paid(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        reader, *_ = sold(shop, campaign)
        shop.clock.pass_(days=9)
        with acting(shop.desk) as connection:
            close_campaign(connection, campaign, shop.clock())
        assert again(reader).see("/s").heading == "The training begins soon"
        with acting(shop.desk) as connection:
            begin_training(connection, campaign, shop.clock())
        page = reader.see("/s")
        assert page.heading == "The training runs"
        assert "you are paid, whether or not a model comes of it" in page.text
        page = reader.see("/s/withdraw")
        assert "it cannot be stopped, and you are paid" in page.text
        assert [form["action"] for form in page.forms] == ["/sign-out"]


def test_who_lost_nothing_by_a_lost_training_reads_that_they_are_owed_everything(tmp_path, monkeypatch):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        reader, *_ = sold(shop, campaign)
        offered = reader.see("/s").text
        shop.clock.pass_(days=9)
        with acting(shop.desk) as connection:
            close_campaign(connection, campaign, shop.clock())

        def broken(*_):
            raise FileProblem("cannot draw.")

        with monkeypatch.context() as patch:
            patch.setattr(noise, "_draw", broken)
            with pytest.raises(FileProblem):
                train_campaign(shop.desk, campaign, shop.clock())
        page = again(reader).see("/s")
        assert page.heading == "The training was lost, and you are paid"
        assert "There is no model" in page.text
        assert set(re.findall(r"€\d+\.\d\d", page.text)) == set(re.findall(r"€\d+\.\d\d", offered)) != set()
        assert "there is no model" in reader.see("/s/receipt").text.lower()
        buyer_sees = shop.buyer.campaign(campaign)
        assert buyer_sees["state"] == "lost"


def test_who_is_paid_reads_so_after_it_was_on_its_way(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        reader, *_ = sold(shop, campaign)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        assert again(reader).see("/s").heading == "The model is released"
        made = shop.paymaster.pay_out(campaign)
        assert reader.see("/s").heading == "Your payment is on its way"
        references = [line["reference"] for line in made["lines"]]
        shop.paymaster.confirm(made["payout"]["id"], references)
        page = reader.see("/s")
        assert page.heading == "You are paid"
        assert "Nothing more happens with your data" in page.text
        shop.paymaster.confirm(made["payout"]["id"], references)
        assert reader.see("/s").heading == "You are paid"


@pytest.mark.parametrize(
    ("steps", "days", "heading"),
    [
        (("consent", "menu", "quote"), 3, "Your offer has ended"),
        (("consent", "menu", "quote", "accept"), 9, "Too late for your answers"),
        ((), -1, "This has not begun yet"),
    ],
)
def test_what_ended_or_has_not_begun_is_said(shop, steps, days, heading):
    campaign = shop.open() if days > 0 else shop.draft()
    (token,) = shop.invite(campaign)
    shop.with_token(token, *steps)
    if days > 0:
        shop.clock.pass_(days=days)
    page = reader_of(shop, token).see("/s")
    assert page.heading == heading
    assert [form["action"] for form in page.forms] == ["/sign-out"]
