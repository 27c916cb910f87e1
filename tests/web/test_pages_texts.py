"""What pages say: every state has a text, all texts are in the catalogue, nothing hostile gets through."""

import re
from importlib import resources

import pytest
from babel import Locale

from dpmarket.campaign import schema
from dpmarket.campaign.rules.meaning import epsilon_shown, guess_percent
from dpmarket.campaign.views import MyParticipation
from dpmarket.errors import MarketRefusal
from dpmarket.web.pages import texts
from dpmarket.web.pages.member import amount_in
from dpmarket.web.pages.seller import SITUATIONS, situation_of
from support.readers import member_of, seller_of
from support.shop import ROLES, RULES, SOLD

MOST = 60_000
HOSTILE = "\"><script>alert(1)</script>'&{{7*7}}{t}%s"
TEMPLATES = resources.files("dpmarket.web").joinpath("templates")


MORE = (
    {}, {"reason": "cap"}, {"reason": "full"}, {"payment": 100}, {"sent": True}, {"screening": True},
    {"paid_at": "2026-03-04T00:00:00+00:00"},
)  # fmt: skip


def test_every_state_of_every_campaign_has_a_situation_with_a_text():
    said, reached = texts.texts_for("en"), set()
    moments = [f"2026-{day}T00:00:00+00:00" for day in ("02-01", "03-02", "03-04", "03-08", "04-01")]
    for state in (*schema.ACTIVE, *schema.ENDED):
        for campaign in (*schema.CAMPAIGN, *schema.CAMPAIGN_ENDED):
            for mechanism in ("online", "offline"):
                for more in MORE:
                    me = standing(state, campaign, mechanism, **more)
                    reached |= {situation_of(me, at) for at in moments}
    assert reached - {"excluded"} == set(SITUATIONS)
    for situation in SITUATIONS:
        assert said.has(f"state.{situation}.title")
        assert said.has(f"state.{situation}.text")


def standing(state, campaign="open", mechanism="online", **more):
    opens, closes, deliver = (f"2026-03-{day}T00:00:00+00:00" for day in ("01", "07", "09"))
    until = "2026-03-03T00:00:00+00:00" if state in ("reserved", "quoted") else None
    values = {
        "campaign": 1, "name": "x", "campaign_state": campaign, "campaign_reason": None,
        "mechanism": mechanism, "state": state, "reason": None, "until": until, "place": None,
        "opens_at": opens, "closes_at": closes, "deliver_until": deliver, "currency": "EUR",
        "minor_units": 100, "epsilon": None, "payment": None, "epsilon_used": None, "ceiling": 1.0,
        "payee": False, "sent": False, "paid_at": None,
    }  # fmt: skip
    return MyParticipation(**{**values, **more})


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.0402, 0.2, 0.4054651081081644, 0.473, 1.0, 2.9, 5.0, 40.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.01])
def test_chances_and_epsilons_are_rounded_up(epsilon, delta):
    import mpmath

    other = mpmath.exp(-mpmath.mpf(epsilon))
    exact = 100 * (1 + delta * other) / (1 + other)
    assert exact <= guess_percent(epsilon, delta) <= exact + 1 + 1e-9
    assert epsilon <= epsilon_shown(epsilon) <= epsilon * 1.011


def test_money_is_written_by_locale_and_never_rounded():
    british, american = texts.texts_for("en-GB"), texts.texts_for("en-US,en;q=0.9")
    assert british.money(123_456, 100, "EUR") == "€1,234.56"
    assert american.money(5, 1000, "USD") == "$0.005"
    assert british.money(7, 1, "JPY") == "JP¥7"
    assert british.money(5, 100, "shells") == "0.05 shells"
    german = texts.Texts("de", Locale("de"), {}, int)
    assert german.money(123_456, 100, "EUR") == "1.234,56\N{NO-BREAK SPACE}€"


def test_numbers_are_written_by_locale_and_a_small_promise_is_not_written_smaller():
    british, german = texts.texts_for("en-GB"), texts.texts_for("de")
    assert (british.number(1234.5), german.number(1234.5)) == ("1,234.5", "1.234,5")
    assert (british.measured(0.0123456), german.measured(0.0123456)) == ("0.0123", "0,0123")
    assert (british.measured(1_234_567.0), german.measured(98.76)) == ("1,230,000", "98,8")
    for epsilon in (4.74e-4, 1.23e-6, 9.99e-10):
        assert float(british.number(epsilon)) == epsilon
        assert float(german.number(epsilon).replace(",", ".")) == epsilon
    assert british.number(1.5e-20) == "1.5E-20"
    assert (british.number(0), german.number(-0.0005)) == ("0", "-0,0005")


@pytest.mark.parametrize("amount", [1, 10, 1234, 100_000, 99_999_999])
@pytest.mark.parametrize("minor_units", [1, 100, 1000])
@pytest.mark.parametrize("language", ["en", "de"])
def test_an_amount_that_stands_in_a_field_is_read_as_itself(amount, minor_units, language):
    text = texts.texts_for(language).typed_amount(amount, minor_units)
    assert amount_in(text, minor_units) == amount


@pytest.mark.parametrize(
    "text",
    ["", "0", "1,000", "1.000", "1,000.00", "-3", "1e3", "1_000", "5/4", "nan", "1.234", "\u0661", "9" * 17],
)
def test_an_amount_that_can_be_misread_is_refused(text):
    with pytest.raises(MarketRefusal):
        amount_in(text, 100)


def test_templates_have_no_words_and_format_no_numbers_of_their_own():
    said, named = texts.texts_for("en"), set()
    for entry in TEMPLATES.iterdir():
        content = entry.read_text(encoding="utf-8")
        bare = re.sub(r"\{[%#].*?[%#]\}", "", re.sub(r"\{\{.*?\}\}", "", content, flags=re.S), flags=re.S)
        visible = re.sub(r"<[^>]*>", " ", bare.replace("<!doctype html>", ""))
        assert re.findall(r"[A-Za-z]{2,}", visible) == [], entry.name
        assert not re.search(r"%\.?\d*[gfde]\b|\|\s*format\(", content), entry.name
        named |= set(re.findall(r'\bt\("([a-z_.0-9]+)"[,)]', content))
    assert len(named) > 100
    assert [name for name in sorted(named) if not said.has(name)] == []


def test_a_language_is_one_file(shop, monkeypatch):
    """Whatever a page says is a text of the catalogue, also on members' pages and in refusals."""
    english = texts.catalogue("en")
    marked = {name: tuple(f"⟦{text}⟧" for text in forms) for name, forms in english.texts.items()}
    other = texts.Texts("fr", Locale("fr"), marked, english.form_of)
    campaign, draft = shop.open(name="0"), shop.draft(name="1")
    reader, staff = seller_of(shop, campaign), [member_of(shop, role) for role in ROLES]
    monkeypatch.setattr("dpmarket.web.pages.rendering.texts_for", lambda wanted: other)
    pages = [reader.see("/s"), reader.see("/s/history"), page := reader.see("/s/consent")]
    assert '<html lang="fr">' in page.html
    page = reader.press(reader.press(page, "/s/consent"), "/s/reserve")
    assert re.search(r"\d,\d\d\s€", page.text)
    pages += [page, reader.press(page, "/s/choose", 1, amount="0"), page := reader.press(page, "/s/choose")]
    pages += [page := reader.press(page, "/s/accept"), reader.press(page, "/s/deliver", f0="0")]
    pages += [reader.see(path) for path in ("/s/withdraw", "/s/receipt", "/s/none", "/", "/verify")]
    paths = ("/m", "/m/people", "/m/money", f"/m/campaigns/{campaign}", f"/m/campaigns/{draft}")
    pages += [one.see(path) for one in staff for path in paths]
    assert {one.status for one in pages} == {200, 404, 422}
    for one in pages:
        bare = re.sub(PARTS_OF_THEIR_OWN, "", one.html.split("<body>")[1], flags=re.S)
        outside = re.sub(r"⟦[^⟦⟧]*⟧", "", re.sub(r"⟦[^⟦⟧]*⟧", "", re.sub("<[^>]*>", " ", bare)))
        assert re.findall(r"[A-Za-z]{3,}", re.sub(OWN, "", outside)) == [], one.path


PARTS_OF_THEIR_OWN = r'<(\w+)([^>]*) lang="\w+"[^>]*>.*?</\1>|<code>.*?</code>|<title>.*?</title>'
OWN = (
    "nov|campaign|Français|English|Deutsch|UTC|age|income|bought|yes|A (buyer|operator|auditor|paymaster)|EUR"
)
"""Names, and what times and money are written with."""


# By parts of their names: which of these is said is decided by a value.
CHOSEN = (
    "state", "role", "event", "refused", "verdict", "campaign_state", "participation", "key", "member",
    "confirm_act", "paying.entry_fund", "paying.entry_refund", "paying.entry_payout", "paying.entry_returned",
    "people.job_failed", "people.job_unknown", "steps", "withdraw", "record.problem", "meaning",
    "mail", "done",
)  # fmt: skip
PLACES = re.compile(r"\{(\w+)\}")


def test_texts_about_numbers_stand_for_texts_of_the_same_names_with_the_same_values():
    known = texts.catalogue("en").texts
    instead = {name: text for name, text in known.items() if name.startswith("numbers.") and "." in name[8:]}
    for name, text in instead.items():
        usual = known[name.removeprefix("numbers.")]
        assert set(PLACES.findall(str(text))) <= set(PLACES.findall(str(usual))), name
        assert "model" not in str(text)
    said = texts.texts_for("en")
    assert said.about("numbers")("state.released.title") == "The numbers are published"
    # Meanings stand in the form for new campaigns.
    members = ("new.", "meaning.", "campaign.model", "consent_text", *instead)
    told = [name for name, text in known.items() if "model" in str(text) and not name.startswith(members)]
    assert [name for name in told if f"numbers.{name}" not in instead] == []


def test_the_catalogue_has_no_text_that_nobody_says():
    sources = "".join(entry.read_text(encoding="utf-8") for entry in TEMPLATES.iterdir())
    for entry in resources.files("dpmarket.web").joinpath("pages").iterdir():
        sources += entry.read_text(encoding="utf-8") if entry.name.endswith(".py") else ""
    unsaid = [
        name
        for name in texts.catalogue("en").texts
        if not f"{name}.".startswith(tuple(f"{first}." for first in CHOSEN))
        and not (name.startswith("numbers.") and "." in name[8:])  # in place of others
        and name != "consent_text"  # of campaigns that name no other
        and f'"{name}"' not in sources
        and not re.search(rf'"{name.rsplit(".", 1)[0]}\." ~ ', sources)
    ]
    assert unsaid == []


def test_hostile_titles_names_and_labels_stay_text(shop):
    rules = {
        **RULES,
        "features": {HOSTILE: {"low": 0, "high": 1}, "{0.__class__}": {"low": 0, "high": 1}},
        "label": {"column": f"label {HOSTILE}", "values": [HOSTILE, "{key}"]},
    }
    campaign = shop.open(rules=rules, name=HOSTILE)
    reader = seller_of(shop, campaign)
    page = reader.see("/s/consent")
    pages = [page, reader.see("/s")]
    page = reader.press(reader.press(page, "/s/consent"), "/s/reserve")
    pages += [page, page := reader.press(page, "/s/choose"), page := reader.press(page, "/s/accept")]
    pages.append(reader.press(page, "/s/deliver", f0=HOSTILE))
    auditor = member_of(shop, "auditor")
    pages += [auditor.see("/m"), auditor.see(f"/m/campaigns/{campaign}")]
    pages.append(member_of(shop, "paymaster").see("/m/money"))
    for one in pages:
        assert one.status in (200, 422)
        assert "<script>alert" not in one.html
        assert HOSTILE in one.text
        assert len(one.answer.content) < MOST
    done = reader.press(pages[5], "/s/deliver", f0="0.5", f1="0.25", f2=HOSTILE)
    assert done.path == "/s/payee"


def test_a_sellers_pages_never_show_another_seller_or_a_total(shop):
    campaign = shop.open()
    reader = seller_of(shop, campaign)
    page = reader.press(reader.press(reader.see("/s/consent"), "/s/consent"), "/s/reserve")
    paths = ("/s", "/s/consent", "/s/choose", "/s/history", "/s/withdraw", "/s/receipt", "/s/payee")
    before = {path: without_keys(reader.see(path).html) for path in paths}
    for k in range(3):
        shop.seller(campaign, *SOLD, cost=1.0 + k)
    assert {path: without_keys(reader.see(path).html) for path in paths} == before
    assert page.status == 200


def without_keys(html):
    return re.sub(r'name="key" value="[^"]*"', "", html)
