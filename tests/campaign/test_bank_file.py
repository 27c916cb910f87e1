"""Payments as a pain.001 file: exact cents, the ledger's references, valid by the schema."""

import xml.etree.ElementTree as ET
from datetime import date
from pathlib import Path

import pytest

from dpmarket.campaign import BankAccount, Payment, accounts_in, bank_file, read_accounts, write_bank_file
from dpmarket.errors import FileProblem, InvalidInput

PAYER = BankAccount("A Clinic GmbH", "DE89 3704 0044 0532 0130 00")
ANN = BankAccount("Ann Müller", "AT611904300234573201")
BOB = BankAccount("Bob & <Sons>", "GB82WEST12345698765432")
ACCOUNTS = {"ann": ANN, "bob": BOB}
PAYMENTS = [Payment("0" * 31 + "1", "ann", 1), Payment("0" * 31 + "2", "bob", 123_456_789)]
DAY, IDENTITY = date(2026, 3, 2), "5f" * 16
SPACE = {"p": "urn:iso:std:iso:20022:tech:xsd:pain.001.001.03"}


def made(payments=PAYMENTS, accounts=ACCOUNTS, **options):
    return bank_file(payments, accounts, PAYER, IDENTITY, DAY, **options)


def texts(content, path):
    return [node.text for node in ET.fromstring(content).findall(f".//{path}", SPACE)]


def test_amounts_are_exact_and_references_are_the_ledgers():
    content = made()
    assert texts(content, "p:InstdAmt") == ["0.01", "1234567.89"]
    assert texts(content, "p:GrpHdr/p:CtrlSum") == ["1234567.90"]
    assert texts(content, "p:GrpHdr/p:NbOfTxs") == ["2"]
    assert texts(content, "p:EndToEndId") == [payment.reference for payment in PAYMENTS]
    assert texts(content, "p:CdtrAcct/p:Id/p:IBAN") == [ANN.iban, BOB.iban]
    assert texts(content, "p:DbtrAcct/p:Id/p:IBAN") == ["DE89370400440532013000"]
    assert texts(content, "p:GrpHdr/p:MsgId") == [IDENTITY]
    assert texts(content, "p:ReqdExctnDt") == ["2026-03-02"]


def test_the_file_keeps_the_schema_that_banks_have():
    import sepaxml
    import xmlschema

    folder = Path(sepaxml.__file__).parent / "schemas"
    xmlschema.XMLSchema(folder / "pain.001.001.03.xsd").validate(made().decode())


def test_names_cannot_become_markup():
    content = made()
    assert b"<Sons>" not in content
    assert texts(content, "p:Cdtr/p:Nm") == ["Ann Muller", "Bob & <Sons>"]


def test_the_same_payout_has_the_same_identity_and_payments_whenever_it_is_written():
    first, second = (ET.fromstring(made()) for _ in range(2))
    for root in (first, second):
        header = root.find(".//p:GrpHdr", SPACE)
        header.remove(header.find("p:CreDtTm", SPACE))
    assert ET.tostring(first) == ET.tostring(second)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"currency": "USD"}, "EUR"),
        ({"minor_units": 1000}, "EUR"),
        ({"payments": []}, "0 of 0"),
        ({"accounts": {"ann": ANN}}, "1 of 2 have none"),
        ({"payments": [Payment("a", None, 5)]}, "1 of 1 have none"),
        ({"payments": [PAYMENTS[0], PAYMENTS[0]]}, "every reference once"),
        ({"payments": [Payment("a</EndToEndId>", "ann", 5)]}, "letters and digits"),
        ({"payments": [Payment("a" * 36, "ann", 5)]}, "letters and digits"),
        ({"payments": [Payment("a", "ann", 0)]}, "amounts"),
        ({"payments": [Payment("a", "ann", 10**11)]}, "amounts"),
    ],
)
def test_what_no_bank_could_pay_is_refused_without_a_value(change, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        made(**change)
    assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        ("", ANN.iban),
        ("x" * 71, ANN.iban),
        ("a\nb", ANN.iban),
        ("ann", "AT611904300234573202"),
        ("ann", "AT61"),
    ],
)
def test_accounts_have_owners_and_check_digits(values):
    with pytest.raises(InvalidInput):
        BankAccount(*values)
    assert ANN.iban not in repr(ANN)


def test_a_payout_file_and_a_table_of_accounts_become_a_bank_file(tmp_path):
    accounts, output = tmp_path / "accounts.csv", tmp_path / "bank.xml"
    accounts.write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\n'=bob,Bob,{BOB.iban}\n")
    by_service = tmp_path / "payout.csv"
    by_service.write_text("reference,payee,amount,currency\nr1,ann,10.05,EUR\nr2,'=bob,0.30,EUR\n")
    told = write_bank_file(by_service, accounts, PAYER, output, day=DAY)
    assert told == (2, 1035)
    assert texts(output.read_bytes(), "p:InstdAmt") == ["10.05", "0.30"]
    by_desk = tmp_path / "payouts.csv"
    by_desk.write_text("reference,id,payment,payment_minor_units,currency\nr1,ann,10.05,1005,EUR\n")
    with pytest.raises(FileProblem, match="exists"):
        write_bank_file(by_desk, accounts, PAYER, output, day=DAY)
    told = write_bank_file(by_desk, accounts, PAYER, output, day=DAY, overwrite=True)
    assert told == (1, 1005)
    by_desk.write_text("reference,id,payment_minor_units,currency\nr1,ann,1005,USD\n")
    with pytest.raises(InvalidInput, match="EUR"):
        write_bank_file(by_desk, accounts, PAYER, output, day=DAY, overwrite=True)
    assert texts(output.read_bytes(), "p:InstdAmt") == ["10.05"]


def test_minor_units_that_are_no_cents_are_refused(tmp_path):
    accounts, payout, output = (tmp_path / name for name in ("accounts.csv", "payout.csv", "bank.xml"))
    accounts.write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\n")
    header = "reference,id,payment,payment_minor_units,currency\n"
    for wrong in ("r1,ann,5.0,5000,EUR", "r1,ann,5.0,5,EUR", "r1,ann,,500,EUR"):
        payout.write_text(f"{header}{wrong}\n")
        with pytest.raises(InvalidInput, match="100 minor units"):
            write_bank_file(payout, accounts, PAYER, output, day=DAY)
    payout.write_text("reference,id,payment_minor_units,currency\nr1,ann,500,EUR\n")
    with pytest.raises(InvalidInput, match="the column payment"):
        write_bank_file(payout, accounts, PAYER, output, day=DAY)
    assert not output.exists()


def test_a_wrong_account_is_named_by_its_line_alone(tmp_path):
    accounts = tmp_path / "accounts.csv"
    accounts.write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\nbob,Bob,DE00CANARY\n")
    with pytest.raises(FileProblem, match="line 3") as caught:
        read_accounts(accounts)
    assert "CANARY" not in str(caught.value)
    accounts.write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\nann,Ann,{ANN.iban}\n")
    with pytest.raises(FileProblem, match="line 3 has a payee who was there before"):
        read_accounts(accounts)
    accounts.write_text(f"who,name,iban\nann,Ann,{ANN.iban}\n")
    with pytest.raises(FileProblem, match="payee or id or seller"):
        read_accounts(accounts)


def test_accounts_from_memory_are_those_from_a_file(tmp_path):
    text = f"\ufeffIBAN;Name;payee\n{ANN.iban};Ann;ann\n{BOB.iban};Bob;'=bob\n"
    found = accounts_in(text.encode())
    assert found == {"ann": BankAccount("Ann", ANN.iban), "=bob": BankAccount("Bob", BOB.iban)}
    path = tmp_path / "accounts.csv"
    path.write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\n'=bob,Bob,{BOB.iban}\n")
    assert read_accounts(path) == found
    for wrong in (
        b"",
        b"\xff",
        b"payee,name\na,b\n",
        b"payee,name,iban\na\n",
        b"payee,name,iban\na,b,CANARY\n",
    ):
        with pytest.raises(FileProblem) as caught:
            accounts_in(wrong)
        assert "CANARY" not in str(caught.value)


def test_the_command_says_what_it_wrote_and_nobodys_account(tmp_path):
    from support.commands import run

    (tmp_path / "payout.csv").write_text("reference,payee,amount,currency\nr1,ann,10.05,EUR\n")
    (tmp_path / "accounts.csv").write_text(f"payee,name,iban\nann,Ann,{ANN.iban}\n")
    given = ("--accounts", "accounts.csv", "--payer-name", PAYER.name, "--payer-iban", PAYER.iban)
    done = run("bank-file", "payout.csv", *given, "--day", "2026-03-02", "-o", "bank.xml", cwd=tmp_path)
    assert "10.05 EUR" in done.stdout
    assert ANN.iban not in done.stdout + done.stderr
    assert texts((tmp_path / "bank.xml").read_bytes(), "p:EndToEndId") == ["r1"]
    assert (tmp_path / "bank.xml").stat().st_mode & 0o077 == 0
    done = run("bank-file", "payout.csv", *given, "--day", "soon", "-o", "other.xml", cwd=tmp_path, code=2)
    assert "2026-03-02" in done.stderr
    assert not (tmp_path / "other.xml").exists()
