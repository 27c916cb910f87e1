"""A bank file is valid by its schema, in letters that banks take, from whatever table of accounts."""

from datetime import date

import polars as pl
import pytest
from sepaxml.validation import ValidationError, try_valid_xml

from dpmarket.campaign.bank_file import SCHEMA, BankAccount, Payment, bank_file, latin, read_accounts
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import write_table

IBAN = "DE89370400440532013000"
PAYER = BankAccount("Klinik Köln & Söhne", IBAN)


def made(**names):
    payments = [Payment(f"R{k}", who, 100_005 + k) for k, who in enumerate(names)]
    accounts = {who: BankAccount(name, IBAN) for who, name in names.items()}
    return bank_file(payments, accounts, PAYER, "identity", date(2030, 3, 4))


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
    assert list(read_accounts(tmp_path / "payouts.csv", "Patient")) == ["007", "=1+1"]
    assert list(read_accounts((tmp_path / "payouts.csv").read_bytes(), "patient")) == ["007", "=1+1"]
    with pytest.raises(FileProblem, match="expected the columns payee or id or seller, name and iban"):
        read_accounts(tmp_path / "payouts.csv")
