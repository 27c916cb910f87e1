"""Members' pages: drafts changed, copied and previewed; people, roles, links, money, and who did what."""

import pytest

from dpmarket.campaign.access import grant
from dpmarket.campaign.acts import OWNER, id_of
from support.readers import Reader, form_of, member_of, seller_of
from support.shop import ASKED, RULES

WORDED = {
    **RULES,
    "questions": {
        "age": {"wording": "How old are you?", "help": "In years.",
                "translations": {"de": {"wording": "Wie alt sind Sie?"}}},
        "bought": {"wording": "Did you buy it?"},
    },
}  # fmt: skip


KINDS = {
    **RULES,
    "features": {
        "income": {"low": 0, "high": 1e5, "missing": 2e4},
        "born": {"first": "1950-01-01", "last": "2010-12-31", "missing": "1980-01-01"},
        "job": {"categories": ["baker", "smith"], "other": True},
        "size": {"categories": ["S", "L"], "missing_category": True},
        "smokes": {"boolean": True, "missing": False},
    },
}


def buyer_of(shop, campaign):
    """Return a colleague of a campaign's buyer."""
    reader = member_of(shop, "buyer")
    shop.market.run(grant, OWNER, reader.caller, "buyer", id_of(campaign))
    return reader


def test_a_seller_reads_questions_in_the_words_and_language_that_the_rules_give_them(shop):
    campaign = shop.open(rules=WORDED)
    for language, words in (("en", "How old are you?"), ("de", "Wie alt sind Sie?")):
        page = seller_of(shop, campaign, language).see("/s/consent")
        assert words in page.text
        assert "Did you buy it?" in page.text  # in English, where it has no translation


@pytest.mark.parametrize("rules", [WORDED, KINDS, ASKED], ids=["model", "kinds", "statistics"])
def test_a_draft_saved_as_the_form_shows_it_has_the_same_rules(shop, rules):
    draft = shop.draft(rules=rules)
    reader = buyer_of(shop, draft)
    before = reader.send("GET", f"/m/campaigns/{draft}/rules.json").json()
    path = f"/m/campaigns/{draft}/edit"
    saved = reader.press(reader.see(path), path, act="draft")
    assert saved.path == f"/m/campaigns/{draft}"
    assert without_defaults(reader.send("GET", f"{saved.path}/rules.json").json()) == without_defaults(before)


def without_defaults(rules):
    """Leave out what a form writes as its default."""
    return {
        name: table
        for name, table in rules.items()
        if name not in ("training", "objective", "sellers", "record_bytes")
    }


def test_a_draft_is_changed_until_it_opens_and_copied_afterwards(shop):
    draft = shop.draft(name="Before")
    reader = buyer_of(shop, draft)
    path = f"/m/campaigns/{draft}"
    page = reader.press(reader.see(f"{path}/edit"), f"{path}/edit", act="draft", **{"campaign.name": "After"})
    assert page.heading == "After"
    assert "Deposit needed" in page.text
    shop.members["paymaster"].act("fund", draft, amount=20_000)
    shop.members["buyer"].act("open", draft, confirmed=True)
    assert reader.see(f"{path}/edit").status == 409
    copied = reader.see(f"/m/new?from={draft}")
    page = reader.press(copied, "/m/new", act="draft", **{"campaign.name": "The copy"})
    assert (page.heading, page.path == path) == ("The copy", False)


def test_a_buyer_sees_the_questions_before_opening_and_nothing_is_sent_from_there(shop):
    draft = shop.draft(rules=WORDED)
    page = buyer_of(shop, draft).see(f"/m/campaigns/{draft}/preview")
    assert "How old are you?" in page.text
    assert [form.method for form in page.forms if "f0" in form.names] == ["get"]


AGES = {
    **{table: RULES[table] for table in ("sellers", "costs", "money")},
    "objective": {"budget": 40.0, "max_epsilon": 1.0},
    "statistics": {"age": {"kind": "mean", "column": "age", "low": 18, "high": 90}},
}


@pytest.mark.slow
def test_a_forecast_is_made_of_a_public_table_and_ends_with_the_draft_it_was_made_for(shop):
    draft = shop.draft(rules=AGES)
    reader, path = buyer_of(shop, draft), f"/m/campaigns/{draft}"

    def sent(table):
        form = form_of(reader.see(path), f"{path}/ask_forecast")
        files = {"sample": ("public.csv", table.encode(), "text/csv")}
        reader.send("POST", f"{path}/ask_forecast", data=form.values, files=files)
        assert "is being made" in reader.see(path).text
        shop.work()
        return reader.see(path)

    assert "line 3" in sent("age\n41\nold\n").text
    made = sent("age\n" + "".join(f"{18 + k}\n" for k in range(60)))
    assert "Half the width" in made.text
    assert made.html.count("±") >= 5
    assert shop.request("POST", f"/api/v1{path[2:]}/ask_forecast").status_code == 401
    page = reader.press(reader.see(f"{path}/edit"), f"{path}/edit", act="draft", **{"objective.budget": "50"})
    assert "±" not in page.text


def test_money_and_what_cannot_be_undone_are_shown_back_first(shop):
    draft = shop.draft()
    paymaster = member_of(shop, "paymaster")
    path = f"/m/campaigns/{draft}/fund"
    asked = paymaster.press(paymaster.see("/m/money"), path, amount="250")
    assert "€250.00" in asked.text
    assert shop.members["paymaster"].get(f"/campaigns/{draft}/money")["funded"] == 0
    done = paymaster.press(asked, path)
    assert shop.members["paymaster"].get(f"/campaigns/{draft}/money")["funded"] == 25_000
    assert "came in" in done.text
    reader = buyer_of(shop, draft)
    asked = reader.press(reader.see(f"/m/campaigns/{draft}"), f"/m/campaigns/{draft}/cancel")
    assert shop.members["buyer"].campaign(draft)["state"] == "draft"
    reader.press(asked, f"/m/campaigns/{draft}/cancel")
    assert shop.members["buyer"].campaign(draft)["state"] == "cancelled"


def test_an_operator_enters_members_and_everybody_sees_who_did_what(shop):
    operator = member_of(shop, "operator")
    page = operator.press(
        operator.see("/m/people"), "/m/people/add_member", name="New colleague", role="auditor"
    )
    place = [form.action for form in page.forms].count("/m/people/link_member") - 1  # the last member
    shown = operator.press(page, "/m/people/link_member", place)
    link = shown.html.split("<code>")[1].split("</code>")[0]
    colleague = Reader(shop)
    assert colleague.enter(link).path == "/m"
    assert "auditor" in colleague.see("/m").text.lower()
    seen = operator.see("/m/people")
    assert "link member" in seen.text
    ended = operator.press(seen, "/m/people/end_member", place)
    assert colleague.see("/m").status == 200
    operator.press(ended, "/m/people/end_member", place)
    assert colleague.see("/m").status == 401
    assert member_of(shop, "buyer").see("/m/people").status == 404


def test_links_are_made_anew_revoked_and_given_as_a_file(shop):
    campaign = shop.open()
    operator = member_of(shop, "operator")
    path = f"/m/campaigns/{campaign}"
    form = form_of(operator.see(path), f"{path}/invite")
    shop.clock.pass_(hours=1)
    answer = operator.send("POST", f"{path}/invite", data={**form.values, "people": "=ann\nbob", "as": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    lines = answer.text.split()
    assert lines[0] == "person,link"
    assert "=ann" in lines[1]
    assert not lines[1].startswith("=")  # no formula for a spreadsheet
    old = lines[2].rsplit("/", 1)[1]
    again = operator.press(operator.see(path), f"{path}/reissue_links", people="bob")
    new = again.html.split("/i/")[1].split()[0].split("<")[0]
    assert shop.request("GET", "/api/v1/me", old).status_code == 401
    assert shop.request("GET", "/api/v1/me", new).status_code == 200
    form = form_of(operator.see(path), f"{path}/reissue_links")
    asked = operator.send("POST", f"{path}/revoke_links", data={**form.values, "people": "bob"})
    assert shop.request("GET", "/api/v1/me", new).status_code == 200
    assert "Revoke" in asked.text
    operator.send(
        "POST", f"{path}/revoke_links",
        data={"key": "k" * 32, "confirmed": "yes", "people": "bob"},
    )  # fmt: skip
    assert shop.request("GET", "/api/v1/me", new).status_code == 401


def test_several_members_of_one_buyer_work_on_a_campaign_that_others_do_not_see(shop):
    draft = shop.draft()
    first, second = buyer_of(shop, draft), member_of(shop, "buyer")
    operator = member_of(shop, "operator")
    people = operator.see("/m/people")
    place = [form.action for form in people.forms].count("/m/people/set_subject") - 2
    operator.press(people, "/m/people/set_subject", place, subject="colleague@example.org")
    assert second.see(f"/m/campaigns/{draft}").status == 404
    first.press(
        first.see(f"/m/campaigns/{draft}"), f"/m/campaigns/{draft}/share", subject="Colleague@example.org"
    )
    assert second.see(f"/m/campaigns/{draft}").status == 200
