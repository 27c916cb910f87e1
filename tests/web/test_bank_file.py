"""A bank file is valid by its schema; the API and the paymaster's page give it and keep no account."""

import hashlib
import xml.etree.ElementTree as ET
from datetime import date

import polars as pl
import pytest
from sepaxml.validation import ValidationError, try_valid_xml

from dpmarket.campaign.bank_file import SCHEMA, BankAccount, Payment, bank_file, latin, read_accounts
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import write_table
from support.readers import form_of, member_of
from support.shop import SOLD

IBAN, PAYER = "AT611904300234573201", {"name": "A Clinic", "iban": "DE89 3704 0044 0532 0130 00"}
SPACE = {"p": "urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"}
DAY = "2026-03-02"


def payout_of(shop, *payees):
    """Return a payout to sellers who have said whom to pay, and its lines."""
    campaign = shop.open()
    for payee in payees:
        shop.seller(campaign, *SOLD).act("set_payee", payee=payee)
    shop.clock.pass_(days=10)
    shop.work()
    made = shop.members["paymaster"].pay_out(campaign)
    shop.campaign = campaign
    return made["payout"]["id"], made["lines"]


def asked(shop, payout, who=("one", "two"), **changes):
    """Return the paymaster's answer from the page that takes a table of accounts."""
    rows = [f"{name},Owner of it,{changes.get('account', IBAN)}" for name in who]
    table = "\n".join(["payee,name,iban", *rows]).encode()
    files = {"accounts": ("accounts.csv", table, "text/csv")}
    data = {**PAYER, "day": DAY} | {name: changes[name] for name in changes if name != "account"}
    return member_of(shop, "paymaster").send("POST", f"/m/payouts/{payout}.xml", data=data, files=files)


def made(**names):
    payments = [Payment(f"R{k}", who, 100_005 + k) for k, who in enumerate(names)]
    accounts = {who: BankAccount(name, IBAN) for who, name in names.items()}
    payer = BankAccount("Klinik Köln & Söhne", IBAN)
    return bank_file(payments, "EUR", 100, accounts=accounts, payer=payer, day=date(2030, 3, 4))


@pytest.mark.parametrize("iban", [IBAN[:-1] + "2", IBAN.replace("61", "\u0666\u0661"), "AT61", ""])
def test_what_no_bank_takes_is_no_iban(iban):
    with pytest.raises(InvalidInput, match="IBAN"):
        BankAccount("Ann", iban)


def test_the_file_is_valid_by_its_schema_and_keeps_umlauts():
    content = made(one="Zoë Müller-Łukasz", two="Jürgen Groß")
    try_valid_xml(content, SCHEMA)
    text = content.decode()
    assert "<Nm>Zoe Müller-Lukasz</Nm>" in text
    assert "<Nm>Jürgen Groß</Nm>" in text
    assert "<Nm>Klinik Köln + Söhne</Nm>" in text
    assert text.count("<CtrlSum>2000.11</CtrlSum>") == 2
    assert '<InstdAmt Ccy="EUR">1000.06</InstdAmt>' in text
    with pytest.raises(ValidationError):  # the schema does look
        try_valid_xml(content.replace(b"1000.06", b"1000,06"), SCHEMA)


def test_names_that_banks_cannot_write_are_refused():
    assert latin("Zoe\u0308 Mu\u0308ller") == "Zoe Müller"
    for name in ("Иван", "山田", "Ann Иванова"):
        with pytest.raises(InvalidInput, match="Latin letters"):
            latin(name)


def test_a_payout_file_with_names_and_accounts_added_is_a_table_of_accounts(tmp_path):
    payout = pl.DataFrame({"reference": ["a", "b"], "Patient": ["007", "=1+1"], "payment": [1.0, 2.0]})
    write_table(tmp_path / "payouts.csv", payout.with_columns(Name=pl.lit("A B"), IBAN=pl.lit(IBAN)))
    assert list(read_accounts((tmp_path / "payouts.csv").read_bytes(), "patient")) == ["007", "=1+1"]
    with pytest.raises(FileProblem, match="expected name, iban and one of payee, id, seller"):
        read_accounts(tmp_path / "payouts.csv")


def texts(content, path):
    return [node.text for node in ET.fromstring(content).findall(f".//{path}", SPACE)]


def test_a_payout_becomes_a_file_of_what_is_not_confirmed_or_returned(shop):
    payout, lines = payout_of(shop, "three", "=one", "four", "two")
    page = member_of(shop, "paymaster").see("/m/money")
    assert form_of(page, f"/m/payouts/{payout}.xml").names == {"accounts", "name", "iban", "day"}
    who = ("'=one", "two")
    answer = asked(shop, payout, who)  # nobody knows the accounts of three and four
    assert answer.status_code == 422
    assert "expected an account for everybody: 2 of 4 have none." in answer.text
    of = {line["payee"]: line["reference"] for line in lines}
    for act, name in (("confirm", "three"), ("returned", "four")):
        assert shop.members["paymaster"].act(act, shop.campaign, references=[of[name]]) == 1
    lines = [line for line in lines if line["payee"] in ("=one", "two")]
    answer = asked(shop, payout, who)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/xml")
    assert answer.headers["content-disposition"].startswith("attachment")
    assert texts(answer.content, "p:EndToEndId") == [line["reference"] for line in lines]
    cents = [int(text.replace(".", "")) for text in texts(answer.content, "p:InstdAmt")]
    assert cents == [line["amount"] for line in lines]
    references = " ".join(sorted(line["reference"] for line in lines))  # the same after a backup was put back
    assert texts(answer.content, "p:GrpHdr/p:MsgId") == [hashlib.sha256(references.encode()).hexdigest()[:32]]
    content = b"".join(path.read_bytes() for path in (shop.settings.folder / "data").iterdir())
    assert IBAN.encode() not in content


def test_what_cannot_be_paid_is_refused_without_a_value(shop):
    payout, _ = payout_of(shop, "one")
    for wrong in ({"iban": "DE00CANARY0000000000"}, {"day": "2026-02-31"}, {"account": "CANARY00"}):
        answer = asked(shop, payout, **wrong)
        assert answer.status_code == 422
        assert "canary" not in answer.text.lower()
    assert "line 2" in answer.text
    action = f"/m/payouts/{payout}.xml"
    assert member_of(shop, "buyer").send("POST", action, data=PAYER).status_code in (401, 403, 404)
