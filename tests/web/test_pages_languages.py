"""Languages: the same texts in all, chosen by the browser or by a link, and no sentence of another."""

import re
from importlib import resources

import pytest
from babel.messages.pofile import read_po

from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.web.pages import public, texts
from dpmarket.web.pages.rules_form import keys

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
    for key in keys():
        table, name = key.path.split(".")
        field = Rules.model_fields[table].annotation.model_fields[name]
        assert CATALOGUES["en"][f"meaning.{key.path}"] == (field.description,)


def test_who_agreed_in_german_agreed_to_the_german_text(shop):
    campaign = shop.open()
    seller = shop.seller(campaign)
    german = seller.get("/me/consent?language=de")
    english = seller.get("/me/consent")
    assert german["page"] != english["page"]
    assert seller.act("consent", page=german["page"], language="de") == "consented"
    assert shop.seller(campaign).get("/me/consent?language=it")["language"] == "en"
