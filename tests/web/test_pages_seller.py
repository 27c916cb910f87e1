"""The whole way of a seller through the pages, without a script."""

import re

import pytest
from dpmarket.market import work
from support.live import MARKET

from support.readers import Reader, Seen, again, member_of, seller_of
from support.shop import SOLD, open_shop

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

MOST = 60_000


def taken(reader, *, until="record"):
    """Go from the invitation as far as asked for; return the page."""
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    if until == "consented":
        return page
    page = reader.press(page, "/s/seat")
    if until == "choose":
        return page
    page = reader.press(page, "/s/quote")
    if until == "offer":
        return page
    return reader.press(page, "/s/accept")


def test_a_seller_goes_all_the_way_with_forms_and_links_alone(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for k in range(6):
            shop.seller(campaign, *SOLD, cost=1.0 + 0.2 * k)
        reader = seller_of(shop, campaign)
        page = reader.see("/s")
        assert page.heading == "You are invited"
        assert "/s/consent" in page.links
        page = taken(reader, until="choose")
        assert page.path == "/s/choose"
        page = reader.press(page, "/s/quote")
        assert page.heading == "Your offer"
        offered = re.search(r"€\d+\.\d\d", page.text)[0]
        page = reader.press(page, "/s/accept")
        assert page.path == "/s/record"
        page = reader.press(page, "/s/record", f0="40", f1="20000", label="yes")
        assert page.path == "/s/payee"
        page = reader.press(page, "/s/payee", payee="an account")
        assert page.heading == "Your answers are here, sealed"
        assert offered in page.text
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        again(reader)
        page = reader.see("/s")
        assert page.heading == "The model is released"
        page = reader.see("/s/receipt")
        assert "nothing is wrong" in page.text
        assert offered in page.text
        assert page.bytes < MOST
        for name in ("receipt", "certificate", "model"):
            answer = reader.send("GET", f"/s/{name}.json")
            assert answer.status_code == 200
            assert answer.headers["content-disposition"] == f'attachment; filename="{name}.json"'
        paid = shop.paymaster.pay_out(campaign)
        assert reader.see("/s").heading == "Your payment is on its way"
        shop.paymaster.confirm(paid["payout"]["id"], [line["reference"] for line in paid["lines"]])
        assert reader.see("/s").heading == "You are paid"
        told = reader.see("/s/history").text
        assert "Your answers were used for the model, and deleted." in told
        assert "an account" not in told
        shop.check()


def test_the_slider_works_without_a_script_and_both_ends_are_told(shop):
    reader = seller_of(shop, shop.open())
    page = taken(reader, until="choose")
    (slider,) = [form for form in page.forms if form["action"] == "/s/choose"]
    assert slider["method"] == "get"
    assert slider["values"] == {"line": "1"}
    last = int(re.search(r'max="(\d+)"', page.html)[1])
    most = reader.see(f"/s/choose?line={last}")
    assert most.form("/s/decline")["method"] == "post"  # declining is as near as accepting
    amounts = [float(re.search(r"data-payment>€(\d+\.\d\d)<", one.html)[1]) for one in (page, most)]
    guesses = [int(re.search(r"data-guess>(\d+)<", one.html)[1]) for one in (page, most)]
    assert amounts[0] < amounts[1]
    assert 50 < guesses[0] < guesses[1]
    for one, number in zip((page, most), guesses, strict=True):
        assert one.html.count('class="coin"') == 50
        assert one.html.count('class="more"') == number - 50
        assert one.html.count("<circle") == 100
        assert f"50 are right. After reading the published model, at most {number}." in one.text
    offer = reader.press(most, "/s/quote")
    assert f"€{amounts[1]:.2f}" in offer.text


def test_what_is_shown_is_never_less_than_what_is_promised(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    page = taken(reader, until="choose")
    epsilons = re.search(r'data-epsilons="([^"]*)"', page.html)[1].split("|")
    payments = re.search(r'data-payments="([^"]*)"', page.html)[1].split("|")
    told = shop.seller(campaign, "consent", "menu").get("/me/menu")["menu"]
    lines = sorted((line for line in told if line["payment"]), key=lambda line: line["epsilon"])
    assert len(lines) == len(epsilons)
    for line, epsilon, payment in zip(lines, epsilons, payments, strict=True):
        assert line["epsilon"] <= float(epsilon) <= line["epsilon"] * 1.01
        assert payment == f"€{line['payment'] / 100:.2f}"


def test_saying_what_privacy_is_worth_gives_the_offer_of_that_cost(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    page = taken(reader, until="choose")
    wrong = reader.press(page, "/s/quote", 1, amount="1,000")
    assert wrong.status == 422
    assert "Write an amount of money" in wrong.text
    page = reader.press(wrong, "/s/quote", 1, amount="0,81")
    assert page.heading == "Your offer"
    told = shop.seller(campaign, "consent", "menu").quote(0.81 / 0.4054651081081644)
    assert f"€{told['payment'] / 100:.2f}" in page.text


def test_where_nothing_is_bought_at_a_cost_it_is_said(shop):
    reader = seller_of(shop, shop.open())
    page = taken(reader, until="choose")
    page = reader.press(page, "/s/quote", 1, amount="1000.5")
    assert page.heading == "There is no offer for you"


def test_pressing_a_button_twice_does_its_act_once(shop):
    reader = seller_of(shop, shop.open())
    page = taken(reader, until="choose")
    for _ in range(2):
        assert reader.press(page, "/s/quote").heading == "Your offer"
    offer = reader.see("/s")
    for _ in range(2):
        assert reader.press(offer, "/s/accept").path == "/s/record"
    form = reader.see("/s/record")
    for _ in range(2):
        sent = reader.press(form, "/s/record", f0="40", f1="20000", label="yes")
        assert sent.path == "/s/payee"
    told = reader.see("/s/history").text
    assert told.count("You accepted your offer.") == told.count("Your answers came, and were sealed.") == 1


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


def test_a_wrong_record_is_told_beside_its_field_and_kept_in_the_form(shop):
    campaign = shop.open(market={**MARKET, "training": {"outside_bounds": "refuse"}})
    reader = seller_of(shop, campaign)
    page = reader.press(taken(reader), "/s/record", f0="900", f1="no number", label="maybe")
    assert page.status == 422
    assert "3 answers need another look." in page.text
    assert 'value="900"' in page.html
    for field, problem in (("f0", "within the bounds"), ("f1", "a number"), ("label", "one of the answers")):
        assert re.search(rf'id="{field}-problem">[^<]*{problem}', page.html)
    page = reader.press(page, "/s/record", f0="90", f1="1e5", label="no")
    assert page.path == "/s/payee"


def test_leaving_says_its_exact_effect_and_has_it(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    assert "You have nothing here yet." in reader.see("/s/withdraw").text
    offer = taken(reader, until="offer")
    assert "Your offer becomes void" in reader.see("/s/withdraw").text
    page = reader.press(offer, "/s/accept")
    reader.press(page, "/s/record", f0="40", f1="20000", label="yes")
    page = reader.see("/s/withdraw")
    assert "Your sealed answers are deleted at once" in page.text
    assert reader.press(page, "/s/withdraw").heading == "You have left"
    assert "no further invitations" in reader.see("/s/withdraw").text
    shop.check()


def test_the_consent_page_names_roles_bounds_limits_and_digests(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    page = reader.see("/s/consent")
    for part in (
        "A buyer",
        "A paymaster",
        "A auditor",
        "A operator",
        "a number from 18 to 90",
        "one of: no, yes",
    ):
        assert part in page.text
    found = shop.buyer.campaign(campaign)
    assert found["market_digest"] in page.text
    assert found["curve_digest"] in page.text
    assert page.form("/s/consent")["values"]["digest"] in page.text
    assert page.form("/s/decline")["method"] == "post"
    wrong = Seen(reader.send("POST", "/s/consent", data={"key": "k" * 20, "digest": "0" * 64}))
    assert wrong.status == 422
    assert reader.see("/s").heading == "You are invited"


def test_in_an_offline_campaign_a_seller_reports_waits_and_is_offered(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open("offline", amount=100_000)
        reader = seller_of(shop, campaign)
        page = taken(reader, until="consented")
        assert "/s/choose" in page.links
        page = reader.press(reader.see("/s/choose"), "/s/quote", amount="0.5")
        assert page.heading == "Your cost is in"
        assert "0.5" not in page.text
        shop.clock.pass_(days=7)
        work(shop.desk, shop.clock())
        assert again(reader).see("/s").heading == "Your offer"


def test_a_form_of_another_site_or_of_nobody_changes_nothing(shop):
    reader = seller_of(shop, shop.open())
    page = reader.see("/s/consent")
    values = page.form("/s/consent")["values"]
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        assert reader.send("POST", "/s/consent", data=values, headers=headers).status_code == 403
    assert reader.send("POST", "/s/consent", data={"digest": values["digest"]}).status_code == 422
    assert reader.send("GET", "/s/withdraw").status_code == 200
    assert reader.send("GET", "/s/accept").status_code == 405
    assert reader.see("/s").heading == "You are invited"


def test_who_is_not_signed_in_or_somebody_else_finds_nothing(shop):
    stranger = Reader(shop)
    for path in ("/s", "/s/consent", "/s/choose", "/s/record", "/s/history", "/s/withdraw", "/s/receipt"):
        page = stranger.see(path)
        assert (page.status, page.heading) == (401, "You are not signed in")
    buyer = member_of(shop, "buyer")
    assert buyer.see("/s").status == 404
    page = stranger.enter("/i/" + "x" * 43)
    assert (page.status, page.heading) == (404, "There is nothing here")


@pytest.mark.parametrize("language", ["en-GB", "xx", "", "en;q=0.5, *", "\u2603".encode().decode("latin-1")])
def test_any_language_that_is_asked_for_gets_a_page(shop, language):
    reader = Reader(shop)
    reader.headers["Accept-Language"] = language.encode("latin-1")
    page = reader.see("/i/" + "x" * 43)
    assert page.status == 200
    assert '<html lang="en">' in page.html
