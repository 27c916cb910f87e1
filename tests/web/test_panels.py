"""People from a panel: signed links, screening, quotas, and the way back, by forms as browsers send them."""

import html
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa

from dpmarket.campaign import schema
from dpmarket.campaign.access import grant as add_role
from dpmarket.campaign.acts import OWNER, id_of
from dpmarket.campaign.certificate import certify_campaign
from dpmarket.campaign.panel import signature
from support.readers import Reader, member_of
from support.shop import RULES

BACK = "https://panel.example/back?id={{pid}}&cc={}"
PANEL = {
    "panel": {
        "name": "survey",
        **{name: BACK.format(name) for name in ("complete", "screened_out", "full", "left")},
    },
    "groups": {"city": {"quota": 2}, "country": {"quota": 50}},
    "screening": [
        {
            "question": "Where do you live?",
            "answers": ["in a city", "elsewhere"],
            "groups": {"in a city": "city", "elsewhere": "country"},
            "translations": {"de": {"question": "Wo wohnen Sie?", "answers": ["in einer Stadt", "sonst"]}},
        },
        {"question": "Do you drive?", "answers": ["yes", "no"], "accept": ["yes"]},
    ],
}
CITY, COUNTRY = {"q0": "0", "q1": "0"}, {"q0": "1", "q1": "0"}


def opened_panel(shop, **panel):
    rules = {**RULES, **PANEL, "panel": {**PANEL["panel"], **panel}}
    return shop.open(rules=rules, amount=200_000)


def secret_of(shop, campaign):
    return shop.members["operator"].get(f"/campaigns/{campaign}/panel")["secret"]


def link_of(shop, campaign, pid, sig=None):
    sig = sig or signature(secret_of(shop, campaign), id_of(campaign), pid)
    return f"/join/{campaign}?pid={pid}&sig={sig}"


class Panelist(Reader):
    """Somebody from a panel."""

    def join(self, link):
        return self.press(self.see(link), link)

    @property
    def led_to(self):
        """Where the last page leads by itself, and its button alike."""
        seconds, _, url = self.answer.headers["refresh"].partition("; url=")
        assert int(seconds) > 0
        assert url.replace("&", "&amp;") in self.answer.text
        found = parse_qs(urlsplit(url).query)
        return found["cc"][0], found["id"][0]


def came(shop, campaign, pid, answers=COUNTRY, language="en-GB"):
    """Return somebody who came by a signed link and answered the screening questions, and their page."""
    reader = Panelist(shop, language)
    reader.join(link_of(shop, campaign, pid))
    page = reader.see("/s/consent")
    return reader, reader.press(page, "/s/screen", **answers)


def sold(reader, page):
    page = reader.press(page, "/s/consent")
    page = reader.press(page, "/s/reserve")
    page = reader.press(page, "/s/choose")
    page = reader.press(page, "/s/accept")
    return reader.press(page, "/s/deliver", f0="40", f1="20000", f2="yes")


def test_the_way_from_a_link_to_the_completion_page(shop):
    campaign = opened_panel(shop)
    reader, page = came(shop, campaign, "p-1")
    assert page.heading == "What taking part means"
    page = sold(reader, page)
    assert page.heading == "You have done your part"
    assert reader.led_to == ("complete", "p-1")
    assert "/s/payee" not in reader.see("/s").links  # the panel pays
    again = Panelist(shop)  # another browser, by the same signed link
    assert again.join(link_of(shop, campaign, "p-1")).heading == "Your answers are sealed"
    page = reader.press(reader.see("/s/withdraw"), "/s/withdraw")
    assert page.heading == "Your part has ended"
    assert reader.led_to == ("left", "p-1")
    shop.check()


def test_all_questions_are_asked_before_anybody_is_screened_out_and_no_answer_is_stored(shop):
    campaign = opened_panel(shop)
    reader = Panelist(shop)
    page = reader.join(link_of(shop, campaign, "p-1"))
    assert page.heading == "A few questions first"
    page = reader.see("/s/screen")
    assert "Where do you live?" in page.text
    assert "Do you drive?" in page.text
    assert "No privacy budget protects these answers" in page.text
    assert reader.press(page, "/s/screen", q0="1").status == 422
    page = reader.press(page, "/s/screen", q0="1", q1="1")
    assert page.heading == "You cannot take part in this one"
    assert reader.led_to == ("screened_out", "p-1")
    assert reader.see("/s").heading == page.heading
    with shop.market.look() as c:
        row = c.execute(
            sa.select(schema.participation).where(schema.participation.c.campaign == id_of(campaign))
        ).one()
        # Whoever is screened out by the second question is in no group by the first.
        assert (row.state, row.reason, row.pool) == ("screened_out", "answers", "escrow")
    assert reader.press(reader.see("/s/withdraw"), "/s/end_invitations").status == 200
    german = Panelist(shop, "de")
    german.join(link_of(shop, campaign, "p-2"))
    assert "Wo wohnen Sie?" in german.see("/s/screen").text


def test_nobody_consents_before_the_questions(shop):
    campaign = opened_panel(shop)
    client = shop.seller(campaign)
    with pytest.raises(Exception, match="screening questions first"):
        client.consent()
    assert client.act("screen", answers=[0, 0]) == "invited"
    assert client.consent() == "consented"
    rules = client.get(f"/campaigns/{campaign}/rules")
    assert "panel" not in rules  # its addresses hold completion codes
    assert rules["screening"]


def test_a_full_group_is_answered_at_once_and_a_place_that_is_freed_is_given_again(shop):
    campaign = opened_panel(shop)
    first = [came(shop, campaign, f"p-{k}", CITY) for k in range(3)]
    for reader, page in first[:2]:
        sold(reader, page)
    first[2][0].press(first[2][1], "/s/consent")  # was let in while there was room
    assert first[2][0].led_to == ("full", "p-2")
    reader, page = came(shop, campaign, "p-3", CITY)
    assert page.heading == "All places are taken"
    assert reader.led_to == ("full", "p-3")
    assert came(shop, campaign, "p-4")[1].heading == "What taking part means"  # the other group
    first[0][0].press(first[0][0].see("/s/withdraw"), "/s/withdraw")
    sold(*came(shop, campaign, "p-5", CITY))
    shop.check()


def test_a_seller_who_takes_no_back_chooses_again_or_is_certified_as_left_once_the_group_is_full(shop):
    campaign = opened_panel(shop)
    people = [came(shop, campaign, f"p-{k}", CITY) for k in range(2)]
    for place, (reader, page) in enumerate(people):
        page = reader.press(reader.press(page, "/s/consent"), "/s/reserve")
        page = reader.press(reader.press(page, "/s/choose"), "/s/decline")
        people[place] = reader, reader.press(reader.see("/s"), "/s/undo")
    reader, page = people[0]
    page = reader.press(reader.press(page, "/s/reserve"), "/s/choose")
    assert reader.press(page, "/s/accept").path == "/s/record"
    people[1][0].press(people[1][1], "/s/decline")
    sold(*came(shop, campaign, "p-2", CITY))
    assert people[1][0].press(people[1][0].see("/s"), "/s/undo").heading == "All places are taken"
    reader.press(reader.see("/s/record"), "/s/deliver", f0="40", f1="20000", f2="yes")
    shop.clock.pass_(days=10)
    shop.work()
    lines = certify_campaign(shop.market, id_of(campaign)).lines
    assert sorted(lines.withdrew.tolist()) == [False, False, True]
    assert (lines.used[~lines.withdrew] > 0).all()
    shop.check()


def test_links_cannot_be_altered_or_used_for_another_campaign(shop):
    campaign, other = opened_panel(shop), opened_panel(shop)
    right = signature(secret_of(shop, campaign), id_of(campaign), "p-1")
    moved = signature(secret_of(shop, campaign), id_of(other), "p-1")
    bad = [
        link_of(shop, other, "p-1", right),
        link_of(shop, other, "p-1", moved),
        link_of(shop, campaign, "p-2", right),
        link_of(shop, campaign, "p-1", right[:-1] + ("0" if right[-1] != "0" else "1")),
        link_of(shop, campaign, "p-1", right.upper()),
        f"/join/{campaign}?pid=p-1&sig=",
        f"/join/{campaign}?pid=p-1",
        f"/join/{shop.open()}?pid=p-1",  # no panel
        f"/join/{'a' * 13}?pid=p-1",
    ]
    for link in bad:
        answer = shop.request("POST", link)
        assert answer.status_code == 404, link
        assert "set-cookie" not in answer.headers
    assert shop.request("POST", f"/join/{campaign}?pid=p%2F1&sig={right}").status_code == 422
    with shop.market.look() as c:
        found = sa.select(sa.func.count()).select_from(schema.participation)
        assert c.scalar(found.where(schema.participation.c.campaign == id_of(campaign))) == 0
    assert shop.request("POST", link_of(shop, campaign, "p-1")).status_code == 303
    # Looking at a link changes nothing and tells nothing.
    assert shop.request("GET", bad[0]).status_code == shop.request("GET", bad[-1]).status_code == 200


def test_the_panels_secret_is_an_operators(shop):
    campaign = opened_panel(shop)
    for role in ("buyer", "auditor", "paymaster"):
        with pytest.raises(Exception, match="nothing here"):
            shop.members[role].get(f"/campaigns/{campaign}/panel")
    page = member_of(shop, "operator").see(f"/m/campaigns/{campaign}")
    assert secret_of(shop, campaign) in page.text
    assert secret_of(shop, campaign) not in member_of(shop, "auditor").see(f"/m/campaigns/{campaign}").html


def test_an_unsigned_link_enters_once_and_then_only_the_same_browser_goes_on(shop):
    campaign = opened_panel(shop, unsigned=True)
    link = f"/join/{campaign}?pid=p-1"
    reader = Panelist(shop)
    assert reader.join(link).heading == "A few questions first"
    assert reader.join(link).heading == "A few questions first"
    thief = Panelist(shop)
    assert thief.join(link).status == 409
    assert thief.see("/s").status == 401
    assert Panelist(shop).join(link_of(shop, campaign, "p-1")).status == 200  # the panel's own word


def test_a_cookie_with_another_id_leads_nobody_back_as_somebody_else(shop):
    reader, page = came(shop, opened_panel(shop), "p-1")
    reader.cookies["__Host-panel"] = "p-2"
    page = reader.press(page, "/s/decline")
    assert "refresh" not in reader.answer.headers
    assert "panel.example" not in page.html


def test_people_who_come_at_once_never_exceed_a_quota(shop):
    campaign, start = opened_panel(shop), threading.Barrier(12)
    links = [link_of(shop, campaign, f"p-{k}") for k in range(12)]

    def come(link):
        reader = Panelist(shop)
        reader.join(link)
        page = reader.see("/s/screen")
        start.wait()
        page = reader.press(page, "/s/screen", **CITY)
        if page.path == "/s/consent":
            page = reader.press(page, "/s/consent")
        return reader.press(page, "/s/reserve").path if page.path == "/s" else page.path

    with ThreadPoolExecutor(12) as pool:
        outcomes = list(pool.map(come, links))
    assert outcomes.count("/s/choose") == 2
    account = schema.account.c
    with shop.market.look() as c:
        query = sa.select(account.taken, account.quota).where(account.campaign == id_of(campaign))
        assert c.execute(query.where(account.name == "escrow/city")).one() == (2, 2)
    shop.check()


def test_a_form_takes_the_tables_of_a_rules_file_and_shows_them_again(shop):
    buyer, made = member_of(shop, "buyer"), shop.draft(rules={**RULES, **PANEL})
    shop.market.run(add_role, OWNER, buyer.caller, "buyer", id_of(made))
    shown = shop.members["buyer"].get(f"/campaigns/{made}/rules")
    path = f"/m/campaigns/{made}/edit"
    page = buyer.see(path)
    text = html.unescape(re.search(r"<textarea id=\"tables\"[^>]*>(.*?)</textarea>", page.html, re.S)[1])
    assert "[[screening]]" in text
    assert buyer.press(page, path, act="draft", tables=text).status == 200
    after = shop.members["buyer"].get(f"/campaigns/{made}/rules")
    assert {name: after[name] for name in PANEL} == {name: shown[name] for name in PANEL}
    odd = ("panel = " + "[" * 10_000, ".".join(["panel"] * 10_000) + " = 1")
    for wrong in ("[objective]\nbudget = 1", "[panel", "[panel]\ncomplete = 'x'", *odd):
        assert buyer.press(page, path, act="draft", tables=wrong).status == 422
