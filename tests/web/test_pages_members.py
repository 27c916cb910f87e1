"""The way of a buyer, an operator, a paymaster and an auditor through the pages, without a script."""

import csv
import io
import re

import pytest
from dpmarket.market import work

from support.readers import Reader, Seen, again, member_of, seller_of
from support.shop import SOLD, open_shop

pytestmark = pytest.mark.slow  # tests/outside has what decides in `make test`

MOST = 60_000
FILLED = {
    "title": "Spring study",
    "objective.budget": "20",
    "sellers.expected": "30",
    "feature0.name": "age",
    "feature0.low": "18",
    "feature0.high": "90",
    "feature1.name": "income",
    "feature1.low": "0",
    "feature1.high": "100000",
    "label.column": "bought",
    "label.values": "no, yes",
}


def drafted(buyer, **values):
    """Fill the form of a new campaign in and save it."""
    return buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **FILLED, **values)


def test_a_buyer_goes_from_the_form_to_the_results_and_a_paymaster_pays(tmp_path):
    with open_shop(tmp_path) as shop:
        paymaster = member_of(shop, "paymaster")
        operator, auditor = member_of(shop, "operator"), member_of(shop, "auditor")
        buyer = member_of(shop, "buyer")
        page = buyer.press(buyer.see("/b/new"), "/b/new", act="plan", **FILLED)
        assert page.status == 200
        assert "this budget" in page.text
        assert "double" in page.text
        assert "Nobody is paid more than" in page.text
        rows = re.findall(r'<th scope="row">(\S+)<br>.*?<td>(\d+)</td><td>([\d.]+)</td>', page.html)
        assert [row[0] for row in rows] == ["€10.00", "€20.00", "€40.00"]
        assert float(rows[0][2]) > float(rows[2][2])
        page = buyer.press(page, "/b/new", act="draft")
        assert page.heading == "Spring study"
        campaign = page.path.removeprefix("/b/")
        early = buyer.press(page, f"{page.path}/open")
        assert (early.status, early.heading) == (402, "Too little money is set aside")
        paymaster.press(paymaster.see("/p"), f"/p/{campaign}/fund", amount="20,50")
        page = buyer.press(buyer.see(page.path), f"{page.path}/open")
        assert "open" in page.text
        assert "€20.50" in page.text
        links = invited(operator, campaign, [f"person {k}" for k in range(8)])
        assert len(links) == 8
        for link in links[:7]:
            seller = Reader(shop)
            seller.enter(link)
            sell(seller)
        page = buyer.see(f"/b/{campaign}")
        assert re.search(r"8 invited, 7 take part, 7 have an offer, 7 accepted, 7 sent answers", page.html)
        assert page.bytes < MOST
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        for one in (buyer, paymaster, auditor):
            again(one)
        page = buyer.see(f"/b/{campaign}")
        assert "released" in page.text
        assert {f"/b/{campaign}/{name}" for name in ("model.json", "certificate.json", "report")} <= set(
            page.links
        )
        assert f"/b/{campaign}/openings.json" not in page.links
        assert buyer.send("GET", f"/b/{campaign}/openings.json").status_code == 404
        page = auditor.see(f"/b/{campaign}")
        assert f"/b/{campaign}/openings.json" in page.links
        assert auditor.send("GET", f"/b/{campaign}/openings.json").status_code == 200
        page = paymaster.see("/p")
        page = paymaster.press(page, f"/p/{campaign}/payout")
        (path,) = [link for link in page.links if link.endswith(".csv")]
        rows = list(csv.reader(io.StringIO(paymaster.send("GET", path).text)))
        assert rows[0] == ["reference", "payee", "amount", "currency"]
        assert len(rows) == 8
        assert {row[1] for row in rows[1:]} == {"'=cmd()"}
        page = paymaster.press(page, path.replace(".csv", "/confirmation"), kind="confirmed")
        assert re.search(r"On its way</th><td[^>]*>€0.00", page.html)
        shop.check()


def invited(operator, campaign, people):
    """Send a CSV file of people; return the links."""
    page = operator.see(f"/b/{campaign}")
    form = page.form(f"/b/{campaign}/invitations")
    content = "person\n" + "\n".join(people)
    answer = operator.send(
        "POST", form["action"], data=form["values"], files={"file": ("people.csv", content.encode())}
    )
    assert answer.status_code == 200
    return re.findall(r"http://\S+/i/[\w-]+", Seen(answer).text)


def sell(reader):
    page = reader.press(reader.see("/s/consent"), "/s/consent")
    page = reader.press(reader.press(page, "/s/seat"), "/s/quote")
    page = reader.press(reader.press(page, "/s/accept"), "/s/record", f0="40", f1="2e4", label="yes")
    assert reader.press(page, "/s/payee", payee="=cmd()").heading == "Your answers are here, sealed"


def test_a_buyers_own_results_are_a_model_a_certificate_and_a_report(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for k in range(6):
            shop.seller(campaign, *SOLD, cost=1.0 + 0.2 * k)
        shop.clock.pass_(days=9)
        work(shop.desk, shop.clock())
        auditor = member_of(shop, "auditor")
        page = auditor.see(f"/b/{campaign}/report")
        assert page.status == 200
        assert "holds" in page.text
        assert "FAILS" not in page.text
        certificate = auditor.send("GET", f"/b/{campaign}/certificate.json").content
        public = Reader(shop)
        answer = public.send("POST", "/verify", files={"certificate": ("certificate.json", certificate)})
        assert "No check failed." in Seen(answer).text
        forged = certificate.replace(b'"', b"'", 1)
        answer = public.send("POST", "/verify", files={"certificate": ("certificate.json", forged)})
        assert "do not trust this" in Seen(answer).text
        other = member_of(shop, "buyer")
        for path in ("", "/report", "/model.json", "/certificate.json", "/openings.json", "/market.json"):
            assert other.send("GET", f"/b/{campaign}{path}").status_code == 404


def test_the_form_refuses_what_the_file_refuses_with_the_same_words(shop):
    buyer = member_of(shop, "buyer")
    page = buyer.press(
        buyer.see("/b/new"),
        "/b/new",
        act="draft",
        **{**FILLED, "objective.budget": "-3", "feature0.high": ""},
    )
    assert page.status == 422
    assert "objective.budget: expected a number > 0, got -3.0." in page.text
    assert "features.age.high: missing; expected a number above low." in page.text
    assert 'value="Spring study"' in page.html  # what was typed stays
    assert re.search(r'id="objective.budget"[^>]*aria-invalid="true"', page.html)
    assert "Spring study" not in buyer.see("/b").text


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ({"title": ""}, "title"),
        ({"title": " "}, "title"),
        ({"closes_at": "soon"}, "closes_at"),
        ({"closes_at": "2001-01-01T00:00"}, "closes_at"),
        ({"costs.distribution": "os.system"}, "costs.distribution"),
        ({"training.outside_bounds": "explode"}, "training.outside_bounds"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_drafted(shop, values, part):
    buyer = member_of(shop, "buyer")
    page = buyer.press(buyer.see("/b/new"), "/b/new", act="draft", **{**FILLED, **values})
    assert page.status == 422
    assert part in page.text
    assert "There is no campaign yet." in buyer.see("/b").text


def test_sums_on_the_dashboard_move_in_batches_only(tmp_path):
    with open_shop(tmp_path, batch=2) as shop:
        campaign = shop.open()
        auditor = member_of(shop, "auditor")
        seen = []
        for k in range(6):
            shop.seller(campaign, "consent", "menu", "quote", "accept", cost=1.0 + 0.3 * k)
            page = auditor.see(f"/b/{campaign}")
            cards = page.html[page.html.index('<div class="cards">') :]
            seen.append(re.sub(r'value="[^"]*"', "", cards))
        assert seen[0] == seen[1] == seen[2]  # before the first batch is told
        assert seen[3] == seen[4] != seen[2]
        assert seen[5] != seen[4]


def test_the_dashboard_tells_the_time_that_is_left_in_words_that_fit(shop):
    campaign = shop.open()
    told = []
    for hours in (0, 8 * 24 - 23, 45, 1.5):
        shop.clock.pass_(hours=hours)
        told.append(
            re.search(r"strong>\. ([^.]*)\.", member_of(shop, "auditor").see(f"/b/{campaign}").html)[1]
        )
    assert told == [
        "8 days left for sellers",  # of nine, less the moment that passed
        "46 hours left for sellers",
        "1 hour left for sellers",
        "Less than an hour left for sellers",
    ]


def test_links_are_shown_once_and_the_same_form_gives_the_same_links(shop):
    campaign = shop.open()
    operator = member_of(shop, "operator")
    page = operator.see(f"/b/{campaign}")
    values = {**page.form(f"/b/{campaign}/invitations")["values"], "people": "ann\nbob\nann"}
    path = f"/b/{campaign}/invitations"
    first, second = (
        operator.send("POST", path, data=values, files={"file": ("", b"")}).text for _ in range(2)
    )
    assert len(re.findall(r"/i/[\w-]+", first)) == 2
    assert re.findall(r"/i/[\w-]+", first) == re.findall(r"/i/[\w-]+", second)
    fresh = operator.see(f"/b/{campaign}")
    assert "/i/" not in fresh.html
    values = {**fresh.form(path)["values"], "people": "ann\ncem"}
    third = Seen(operator.send("POST", path, data=values, files={"file": ("", b"")}))
    assert len(re.findall(r"/i/[\w-]+", third.text)) == 1
    assert "One person was invited before" in third.text
    bad = operator.send("POST", path, data=fresh.form(path)["values"], files={"file": ("x", b"\xff\xfe")})
    assert bad.status_code == 422


def test_members_find_only_what_is_for_their_role(shop):
    campaign = shop.open()
    for role, closed in (
        ("buyer", f"/b/{campaign}"),
        ("paymaster", "/b"),
        ("auditor", "/p"),
        ("operator", "/p"),
    ):
        page = member_of(shop, role).see(closed)
        assert (page.status, page.heading) == (404, "There is nothing here")
    auditor = member_of(shop, "auditor")
    page = auditor.see(f"/b/{campaign}")
    assert page.forms == [page.form("/sign-out")]
    seller = seller_of(shop, campaign)
    for path in ("/b", f"/b/{campaign}", "/p", "/b/new"):
        assert seller.see(path).status == 404


def test_who_uploads_nothing_or_nonsense_is_told_so(shop):
    public = Reader(shop)
    page = public.see("/verify")
    assert page.heading == "Check a certificate or a receipt"
    assert Seen(public.send("POST", "/verify", files={"certificate": ("", b"")})).status == 422
    answer = public.send("POST", "/verify", data={"cost": "many"}, files={"certificate": ("c.json", b"{}")})
    assert "Write the cost as a number" in Seen(answer).text
    answer = public.send("POST", "/verify", files={"certificate": ("c.json", b"\x00[[[")})
    assert "do not trust this" in Seen(answer).text
    assert public.send("POST", "/verify", data={"cost": "1"}).status_code == 422
