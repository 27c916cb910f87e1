"""A payout as a file for banks, by the API and on the paymaster's page; accounts are kept nowhere."""

import hashlib
import xml.etree.ElementTree as ET

import pytest

from dpmarket.web.client import Refused
from support.readers import form_of, member_of
from support.shop import RULES, SOLD

IBAN, PAYER = "AT611904300234573201", {"name": "A Clinic", "iban": "DE89 3704 0044 0532 0130 00"}
SPACE = {"p": "urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"}
DAY = "2026-03-02"


def payout_of(shop, *payees, rules=RULES):
    """Return a payout to sellers who have said whom to pay, and its lines."""
    campaign = shop.open(rules=rules)
    for payee in payees:
        shop.seller(campaign, *SOLD).act("set_payee", payee=payee)
    shop.clock.pass_(days=10)
    shop.work()
    made = shop.members["paymaster"].pay_out(campaign)
    shop.campaign = campaign
    return made["payout"]["id"], made["lines"]


def asked(shop, payout, **changes):
    body = {
        "payer": PAYER,
        "accounts": [{"payee": who, "name": f"Owner of {who}", "iban": IBAN} for who in ("one", "two")],
        "day": DAY,
    }
    headers = {"Authorization": f"Bearer {shop.tokens['paymaster']}"}
    path = f"/api/v1/payouts/{payout}/bank_file"
    return shop.request("POST", path, headers=headers, json=body | changes)


def texts(content, path):
    return [node.text for node in ET.fromstring(content).findall(f".//{path}", SPACE)]


def test_a_payout_becomes_a_file_with_its_own_references_and_exact_amounts(shop):
    payout, lines = payout_of(shop, "one", "two")
    answer = asked(shop, payout)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/xml")
    assert texts(answer.content, "p:EndToEndId") == [line["reference"] for line in lines]
    cents = [int(text.replace(".", "")) for text in texts(answer.content, "p:InstdAmt")]
    assert cents == [line["amount"] for line in lines]
    references = " ".join(sorted(line["reference"] for line in lines))  # the same after a backup was put back
    assert texts(answer.content, "p:GrpHdr/p:MsgId") == [hashlib.sha256(references.encode()).hexdigest()[:32]]
    content = b"".join(path.read_bytes() for path in (shop.settings.folder / "data").iterdir())
    assert IBAN.encode() not in content


def test_what_was_entered_since_is_not_paid_again_and_who_has_no_account_stops_nobody(shop):
    payout, lines = payout_of(shop, "one", "three", "two")
    assert asked(shop, payout).status_code == 422  # nobody knows the account of three
    of = {line["payee"]: line["reference"] for line in lines}
    assert shop.members["paymaster"].act("confirm", shop.campaign, references=[of["one"]]) == 1
    assert shop.members["paymaster"].act("returned", shop.campaign, references=[of["three"]]) == 1
    answer = asked(shop, payout)
    assert answer.status_code == 200
    assert texts(answer.content, "p:EndToEndId") == [of["two"]]


def test_what_cannot_be_paid_is_refused_without_a_value(shop):
    payout, _ = payout_of(shop, "one", "three")
    answer = asked(shop, payout)
    assert (answer.status_code, answer.json()["title"]) == (
        422, "expected an account for everybody: 1 of 2 have none.",
    )  # fmt: skip
    wrong = [
        {"payer": {"name": "A", "iban": "DE00CANARY0000000000"}},
        {"day": "2026-02-31"},
        {"accounts": [{"payee": "one", "name": "Owner", "iban": "CANARY0000000000000"}]},
        {"accounts": [{"payee": "one", "name": "Owner", "iban": IBAN}] * 2},
        {"canary": 1},
    ]
    for change in wrong:
        answer = asked(shop, payout, **change)
        assert answer.status_code == 422
        assert "canary" not in answer.text.lower()
    with pytest.raises(Refused) as caught:
        shop.members["buyer"].post(
            f"/payouts/{payout}/bank_file", {"payer": PAYER, "accounts": [], "day": DAY}
        )
    assert caught.value.status in (404, 422)


def test_other_currencies_have_no_such_file(shop):
    payout, _ = payout_of(shop, "one", rules={**RULES, "money": {"currency": "CHF"}})
    answer = asked(shop, payout)
    assert (answer.status_code, "EUR" in answer.json()["title"]) == (422, True)
    page = member_of(shop, "paymaster").see("/m/money")
    assert f"/m/payouts/{payout}.xml" not in {form.action for form in page.forms}


def test_the_paymasters_page_takes_a_table_of_accounts_and_gives_the_file(shop):
    payout, lines = payout_of(shop, "=one", "two")
    reader = member_of(shop, "paymaster")
    action = f"/m/payouts/{payout}.xml"
    page = reader.see("/m/money")
    assert (page.status, page.path) == (200, "/m/money"), page.text
    assert form_of(page, action).names == {"accounts", "name", "iban", "day"}
    table = f"payee,name,iban\n'=one,One,{IBAN}\ntwo,Two,{IBAN}\n".encode()
    sent = {"data": {**PAYER, "day": DAY}, "files": {"accounts": ("accounts.csv", table, "text/csv")}}
    answer = reader.send("POST", action, **sent)
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith("attachment")
    assert texts(answer.content, "p:EndToEndId") == [line["reference"] for line in lines]
    sent["files"] = {"accounts": ("accounts.csv", b"payee,name,iban\ntwo,Two,CANARY\n", "text/csv")}
    answer = reader.send("POST", action, **sent)
    assert answer.status_code == 422
    assert "CANARY" not in answer.text
    assert "line 2" in answer.text
    assert member_of(shop, "buyer").send("POST", action, **sent).status_code in (401, 403, 404)


def test_the_paymaster_sees_what_goes_back_once_a_campaign_has_ended(shop):
    payout_of(shop, "one")
    page = member_of(shop, "paymaster").see("/m/money")
    assert page.status == 200
    assert "Left of the buyer's money" in page.text
