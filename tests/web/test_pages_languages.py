"""Languages: the same texts in all, chosen by the browser or by a link, and no sentence of another."""

import re
from importlib import resources
from typing import Literal

import pytest
from babel.messages.pofile import read_po
from pydantic import Field, create_model

from dpmarket.campaign.rules.rules_file import Rules, Sellers
from dpmarket.web.folder import consent_texts
from dpmarket.web.pages import public, rules_form, texts
from dpmarket.web.pages.rules_form import keys
from support.readers import again, member_of, seller_of
from support.shop import SOLD, open_shop

FOLDER = resources.files("dpmarket.web").joinpath("texts")
CATALOGUES = {name: texts.catalogue(name).texts for name in texts.languages()}
OTHERS = [name for name in CATALOGUES if name != texts.FALLBACK]


def placeholders(forms):
    return set(re.findall(r"\{(\w+)\}", " ".join(forms)))


def test_a_way_back_leads_to_this_service_and_is_read_in_no_time():
    for back in ("/", "/s", "/s/", "/s/choose", "/m/c-1.x/report.html"):
        assert public.is_own(back)
    # With a repetition inside a repetition the last one would take longer than anybody lives.
    for back in ("//evil.example", "/\\evil", "/s\n", "https://evil.example", "", f"/{'a' * 190}!"):
        assert not public.is_own(back)


def test_there_are_further_languages():
    assert OTHERS == ["de", "fr"]


@pytest.mark.parametrize("language", OTHERS)
def test_every_language_has_the_same_texts_with_the_same_places(language):
    english = CATALOGUES["en"]
    with FOLDER.joinpath(f"{language}.po").open("rb") as file:
        own = {one.context: one for one in read_po(file, locale=language) if one.context}
    assert set(own) == set(english)
    for name, forms in english.items():
        one = own[name]
        assert one.id == (forms if len(forms) > 1 else forms[0]), f"{name}: of another English text"
        said = one.string if len(forms) > 1 else (one.string,)
        assert len(said) == (2 if len(forms) > 1 else 1), name
        assert placeholders(said) == placeholders(forms), name
        assert all(text.strip() for text in said), name
        assert not one.fuzzy, name


def test_a_text_that_a_language_lacks_is_in_english(tmp_path, monkeypatch):
    content = """msgid ""
msgstr "Content-Type: text/plain; charset=utf-8\\nPlural-Forms: nplurals=2; plural=(n > 1);\\n"

msgctxt "back"
msgid "Back"
msgstr "Terug"

msgctxt "sign_out"
msgid "Sign out of here"
msgstr "of a text that has changed since"
"""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "nl.po").write_text(content)
    english = texts.catalogue("en")
    monkeypatch.setattr(texts.resources, "files", lambda _: tmp_path)
    made = texts.catalogue.__wrapped__("nl").texts
    assert made["back"] == ("Terug",)
    assert {name: forms for name, forms in made.items() if name != "back"} == {
        name: forms for name, forms in english.texts.items() if name != "back"
    }


def test_plural_forms_are_the_languages_own():
    english, french = texts.texts_for("en"), texts.texts_for("fr")
    assert "0 hours" in english("campaign.hours", n=0)
    assert "0 heure restante" in french("campaign.hours", n=0)
    assert "2 heures" in french("campaign.hours", n=2)


def test_the_meanings_of_keys_are_the_rules_own_words():
    first, others = keys()
    for key in [*first, *others]:
        table, name = key.path.split(".")
        field = Rules.model_fields[table].annotation.model_fields[name]
        assert CATALOGUES["en"][f"meaning.{key.path}"] == (field.description,)


@pytest.mark.parametrize("language", CATALOGUES)
def test_every_key_of_the_form_has_a_name_and_a_meaning_in_every_language(language):
    first, others = keys()
    for key in [*first, *others]:
        assert {f"key.{key.path}", f"meaning.{key.path}"} <= set(CATALOGUES[language])


def test_a_key_that_no_language_speaks_of_is_shown_by_its_own_name_and_description(shop, monkeypatch):
    added = {
        "most_hours": Field(None, description="Nobody waits longer."),
        "kind_of_day": Field("work", description="Which days count."),
    }
    types = {"most_hours": int | None, "kind_of_day": Literal["work", "any"]}
    other = create_model("Sellers", **{name: (types[name], field) for name, field in added.items()})
    monkeypatch.setitem(rules_form._TABLES, "sellers", create_model("Both", __base__=(other, Sellers)))
    page = member_of(shop, "buyer", "de").see("/m/new")
    assert page.status == 200
    assert '<label for="sellers.most_hours">sellers.most_hours</label>' in page.html
    assert 'id="sellers.most_hours-help" lang="en">Nobody waits longer.<' in page.html
    assert '<label for="sellers.kind_of_day">sellers.kind_of_day</label>' in page.html
    assert 'id="sellers.kind_of_day-help" lang="en">Which days count.<' in page.html
    assert 'id="sellers.expected-help">' in page.html  # in the page's own language, as before


def sentences(language):
    """Return what a catalogue says in two words or more: a part of it, without what is put in."""
    found = set()
    for message in CATALOGUES[language].values():
        for text in message:
            parts = [part.strip(" .,:;()") for part in re.split(r"\{\w+\}|(?<=[.:;]) ", text)]
            found |= {part for part in parts if len(re.findall(r"[^\W\d_]{2,}", part)) > 1}
    return found


ENGLISH_ONLY = {language: sentences("en") - sentences(language) for language in OTHERS}


def told(page):
    """Return what a page shows in its own language: parts marked as another are left out."""
    bare = re.sub(r'<(\w+)([^>]*) lang="en"[^>]*>.*?</\1>', " ", page.html, flags=re.S)
    bare = re.sub(r"<(script|style|title)\b.*?</\1>", " ", bare, flags=re.S)
    attributes = " ".join(
        re.findall(r'(?:aria-label|placeholder|data-words|data-picture|alt)="([^"]*)"', bare)
    )
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", bare) + " " + attributes)


def assert_german(*pages):
    assert_in("de", *pages)


def assert_in(language, *pages):
    for page in pages:
        assert f'<html lang="{language}">' in page.html, page.path
        text = told(page)
        assert [part for part in ENGLISH_ONLY[language] if part in text] == [], page.path
        assert re.search(r"[äöüßÄÖÜéèàêç]", text), page.path


def test_a_seller_reads_french(shop):
    reader = seller_of(shop, shop.open(), "fr-CA,fr;q=0.9,en;q=0.5")
    assert_in("fr", reader.see(reader.link), reader.see("/s"), page := reader.see("/s/consent"))
    assert consent_texts()["fr"][:40] in page.text
    page = reader.press(page, "/s/consent")
    assert_in("fr", page, page := reader.press(page, "/s/reserve"))
    assert re.search(r"\d,\d\d\s€", page.text)
    assert_in("fr", page := reader.press(page, "/s/choose"), page := reader.press(page, "/s/accept"))
    assert_in("fr", reader.press(page, "/s/deliver", f0="vieux"), reader.see("/s/history"))
    assert_in("fr", *(member_of(shop, "operator", "fr").see(path) for path in ("/", "/m", "/m/people")))


def test_a_seller_reads_german_from_the_invitation_to_the_receipt(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        for k in range(5):
            shop.seller(campaign, *SOLD, cost=1.0 + 0.2 * k)
        reader = seller_of(shop, campaign, "de-DE,de;q=0.9,en;q=0.5")
        assert_german(reader.see(reader.link), reader.see("/s"), page := reader.see("/s/consent"))
        assert consent_texts()["de"].split("\n")[0][:40] in page.text
        assert consent_texts()["en"].split("\n")[0][:40] not in page.text
        page = reader.press(page, "/s/consent")
        assert_german(page, page := reader.press(page, "/s/reserve"))
        assert re.search(r"\d,\d\d\s€", page.text)
        assert_german(reader.press(page, "/s/choose", 1, amount="viel"))
        assert_german(page := reader.press(page, "/s/choose"), page := reader.press(page, "/s/accept"))
        assert_german(wrong := reader.press(page, "/s/deliver", f0="alt"))
        page = reader.press(wrong, "/s/deliver", f0="40", f1="20000,5", f2="yes")
        assert_german(page, reader.press(page, "/s/set_payee", payee="ein Konto"))
        assert_german(*(reader.see(path) for path in ("/s/history", "/s/withdraw", "/s/receipt", "/s/none")))
        shop.clock.pass_(days=9)
        shop.work()
        again(reader)
        assert_german(reader.see("/s"), reader.see("/s/receipt"), reader.see("/s/withdraw"))
        assert_german(reader.see("/"), reader.see("/verify"), reader.press(reader.see("/s"), "/sign-out"))


def test_members_read_german(tmp_path):
    with open_shop(tmp_path) as shop:
        campaign = shop.open()
        draft = shop.draft()
        for k in range(6):
            shop.seller(campaign, *SOLD, cost=1.0 + 0.2 * k)
        readers = {
            role: member_of(shop, role, "de") for role in ("buyer", "operator", "auditor", "paymaster")
        }
        buyer = readers["buyer"]
        assert_german(buyer.see("/m"), form := buyer.see("/m/new"), buyer.press(form, "/m/new", act="plan"))
        for role in ("operator", "auditor"):
            assert_german(
                *(
                    readers[role].see(path)
                    for path in ("/m", f"/m/campaigns/{campaign}", f"/m/campaigns/{draft}")
                )
            )
        assert_german(readers["paymaster"].see("/m/money"))
        shop.clock.pass_(days=9)
        shop.work()
        for reader in readers.values():
            again(reader)
        assert_german(*(readers["auditor"].see(f"/m/campaigns/{campaign}{end}") for end in ("", "/report")))
        paymaster = readers["paymaster"]
        assert_german(paymaster.see("/m/money"))


def test_who_agreed_in_german_agreed_to_the_german_text(shop):
    campaign = shop.open()
    seller = shop.seller(campaign)
    german = seller.get("/me/consent?language=de")
    english = seller.get("/me/consent")
    assert german["page"] != english["page"]
    assert seller.act("consent", page=german["page"], language="de") == "consented"
    assert shop.seller(campaign).get("/me/consent?language=it")["language"] == "en"
