"""Broken, forged and hostile files: refused without a private value, and nothing is half-written."""

import copy
import gzip
import json
import shutil
import sqlite3

import polars as pl
import pytest

from outside.driver import FileCampaign, read_table, write_rules, write_table
from outside.goods import GOODS, sellers, tables
from support.forging import canonical

GOOD, NUMBER = GOODS["two classes"], 30
SECRET = "4711.0815"  # in cells that are wrong: no refusal may show it
LONG = 2_000  # characters of a refusal, at most


def snapshot(folder):
    """Return the content of every file, except of the database, its log and what SQLite has beside it."""
    files = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in files if "state" not in path.parts and "rules.db" not in path.name)
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}


def refused(campaign, *arguments, code=1, **options):
    """Run a command that must refuse in a sentence, and change no file; return what it said."""
    before = snapshot(campaign.folder)
    done = campaign.run(*arguments, code=code, **options)
    said = done.out + done.err
    assert done.err.strip() or arguments[0] == "verify"  # whose verdict is its result
    assert said.strip()
    assert len(said) < LONG
    assert SECRET not in said
    assert snapshot(campaign.folder) == before
    return said


def is_open(campaign):
    """Say whether a seller's promise stands and nothing of it is spent."""
    (line,) = campaign.run("statement", "seller 7", "--json").json["campaigns"]
    return line["epsilon"] > 0 and (line["spent"], line["state"]) == (0, "accepted")


def new_campaign(folder):
    return FileCampaign(folder, GOOD.rules(100), *tables(*sellers(GOOD, NUMBER)))


@pytest.fixture(scope="module")
def unquoted(tmp_path_factory):
    return new_campaign(tmp_path_factory.mktemp("unquoted"))


@pytest.fixture(scope="module")
def quoted(tmp_path_factory):
    campaign = new_campaign(tmp_path_factory.mktemp("quoted"))
    campaign.quote()
    return campaign


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    campaign = new_campaign(tmp_path_factory.mktemp("whole"))
    for act in (campaign.quote, campaign.train, campaign.certify, campaign.receipts):
        act()
    shutil.copy(campaign.receipt_of("7"), campaign / "receipt.json")
    campaign.run("commit", "-o", "commitment.json")
    return campaign


# --- tables -------------------------------------------------------------------------------------

USUAL = "seller,cost\n" + "".join(f"s{k},{1 + k % 4}.5\n" for k in range(20))
REPORTS = {
    "nothing": b"",
    "a header alone": b"seller,cost\n",
    "no cost column": b"seller,price\na,1\nb,2\n",
    "a column twice": b"seller,cost,cost\na,1,2\nb,1,2\n",
    "a cell too many": USUAL + f"a,1.5,{SECRET}\n",
    "a cell too few": USUAL + "a\n",
    "an open quote": USUAL + f'"a,{SECRET}\n',
    "an id twice": USUAL + "s3,2.5\n",
    "an id twice, and nothing to buy": "seller,cost\n" + "".join(f"s{k % 19},1e6\n" for k in range(20)),
    "an id in two forms": USUAL + "Zo\u00eb,1.5\nZoe\u0308,1.5\n",
    "an id with blanks around": USUAL + f" {SECRET} ,1.5\n",
    "no id": USUAL + ",1.5\n",
    "a NUL in an id": USUAL + "a\0b,1.5\n",
    "an id with a character that nobody sees": USUAL + "a\u200bb,1.5\n",
    "one address in two cases": USUAL + "Zoe@Example.org,1.5\nzoe@example.org,1.5\n",
    "costs in another unit": "seller,cost\n" + "".join(f"s{k},{100 + k}.5\n" for k in range(20)),
    "a negative cost": USUAL + f"a,-{SECRET}\n",
    "NaN": USUAL + "a,NaN\n",
    "an infinite cost": USUAL + "a,inf\n",
    "a cost beyond every number": USUAL + "a,1e999\n",
    "a cost of 100,000 digits": USUAL + "a," + "1" * 100_000 + "\n",
    "a decimal comma": USUAL + f'a,"{SECRET.replace(".", ",")}"\n',
    "no cost": USUAL + "a,\n",
    "a text": USUAL + f"a,about {SECRET}\n",
    "a formula": USUAL + f"a,=1+{SECRET}\n",
    "not UTF-8": USUAL.encode() + b"Zo\xeb,1.5\n",
    "compressed": gzip.compress(USUAL.encode()),
    "JSON": json.dumps([{"seller": "a", "cost": SECRET}]),
    "one endless row": b"," * 1_000_000,
}


def put(campaign, name, content):
    (campaign / name).write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("content", REPORTS.values(), ids=REPORTS)
def test_broken_reports_are_refused_before_anything_is_promised(unquoted, content):
    put(unquoted, "bad.csv", content)
    assert "bad.csv" in refused(unquoted, "quote", "bad.csv", "-o", "quotes.csv")
    assert not (unquoted / "rules.db").exists()


def test_tables_that_are_none_or_grow_without_end_are_refused(unquoted):
    frame = pl.DataFrame({"seller": pl.repeat("s" * 50_000, 2_000, eager=True), "cost": [1.0] * 2_000})
    frame.write_parquet(unquoted / "bomb.parquet", compression="zstd")
    assert (unquoted / "bomb.parquet").stat().st_size < 1_000_000
    put(unquoted, "cut.parquet", (unquoted / "bomb.parquet").read_bytes()[:-20])
    put(unquoted, "text.parquet", USUAL)
    (unquoted / "folder.csv").mkdir()
    for name in ("bomb.parquet", "cut.parquet", "text.parquet", "folder.csv", "absent.csv", "rules.xlsx"):
        refused(unquoted, "quote", name, "-o", "quotes.csv")


def changed(row, **cells):
    return [row | cells]


DATA = {
    "an unknown label": lambda row: changed(row, bought=SECRET),
    "no label": lambda row: changed(row, bought=""),
    "a text for a number": lambda row: changed(row, age=f"about {SECRET}"),
    "NaN": lambda row: changed(row, age="nan"),
    "an infinite number": lambda row: changed(row, income="-inf"),
    "a number beyond every number": lambda row: changed(row, income="1e999"),
    "an empty cell": lambda row: changed(row, income=""),
    "a formula": lambda row: changed(row, age="=A1"),
    "a second row for one person": lambda row: [row, row],
    "nobody's row": lambda row: [row, row | {"seller": f"stranger {SECRET}"}],
    "no row for somebody": lambda row: [],
}


def test_broken_records_are_refused_and_nothing_is_spent(quoted):
    rows = read_table(quoted / "data.csv")
    for change in DATA.values():
        bad = [*rows[:7], *change(rows[7]), *rows[8:]]
        write_table(quoted / "bad.csv", {name: [row[name] for row in bad] for name in bad[0]})
        assert "bad.csv" in refused(quoted, "train", "bad.csv", "-o", "model.json")
    assert is_open(quoted)


def test_records_without_a_column_or_header_name_the_column_and_no_cell(quoted):
    rows = (quoted / "data.csv").read_text(encoding="utf-8").splitlines()
    put(quoted, "bad.csv", "\n".join([rows[0].replace("income", "salary"), *rows[1:]]))
    train = ("train", "bad.csv", "-o", "model.json")
    assert "income" in refused(quoted, *train)
    put(quoted, "bad.csv", "\n".join(rows[1:]))  # the first person's row is taken for the header
    assert rows[1].split(",")[2] not in refused(quoted, *train)


# --- rules --------------------------------------------------------------------------------------


def rules_with(table, **values):
    rules = GOOD.rules(100)
    return rules | {table: {**rules[table], **values}}


RULES = {
    "an unknown key": rules_with("objective", generosity=1),
    "a number as text": rules_with("sellers", expected="many"),
    "a negative number": rules_with("sellers", expected=-5),
    "a huge number": rules_with("objective", max_epsilon=10**400),
    "no number": rules_with("objective", payment_weight=float("inf")),
    "bounds in reverse": rules_with("features", age={"low": 90, "high": 18}),
    "one label": rules_with("label", values=["yes"]),
    "a program for a distribution": rules_with("costs", distribution="__import__('os').system('true')"),
    "an impossible distribution": rules_with("costs", distribution="uniform(5, 1)"),
    "a delta for nobody": rules_with("objective", delta=0.5),
}
TOML = {
    "nothing": b"",
    "deep arrays": b"a = " + b"[" * 60_000,
    "deep tables": b"a = " + b"{a = " * 40_000,
    "a long key": b".".join([b"a"] * 50_000) + b" = 1",
    "many digits": b"a = " + b"1" * 100_000,
    "not UTF-8": b"a = '\xff'",
    "no date": b"a = 0000-00-00",
    "no end": b'[sellers\nid_column = "',
    "a list for a table": b"sellers = []\n",
}


def test_rules_that_make_no_sense_are_refused_by_every_command_that_reads_them(tmp_path):
    campaign = new_campaign(tmp_path)
    for rules in RULES.values():
        write_rules(campaign / "rules.toml", rules)
        assert "rules.toml" in refused(campaign, "quote", "reports.csv", "-o", "quotes.csv")
        refused(campaign, "commit", "-o", "commitment.json")
    for content in TOML.values():
        put(campaign, "rules.toml", content)
        assert "rules.toml" in refused(campaign, "quote", "reports.csv", "-o", "quotes.csv")
    assert not (campaign / "rules.db").exists()


def test_a_bound_on_rows_that_no_training_accepts_is_refused_before_anybody_is_quoted(tmp_path):
    campaign = new_campaign(tmp_path)
    write_rules(campaign / "rules.toml", rules_with("sellers", rows_per_person=10**30))
    refused(campaign, "quote", "reports.csv", "-o", "quotes.csv")


# --- papers -------------------------------------------------------------------------------------

JSON = {
    "nothing": b"",
    "deep lists": b"[" * 100_000,
    "many digits": b'{"schema": ' + b"1" * 100_000 + b"}",
    "NaN": b'{"schema": NaN}',
    "not UTF-8": b"\xff\xfe" * 100,
    "another kind": b'{"schema": "4711.0815"}',
}
READERS = {
    "model": ("predict", "bad.json", "data.csv", "-o", "predictions.csv"),
    "certificate": ("verify", "bad.json"),
    "openings": ("verify", "certificate.json", "--openings", "bad.json"),
    "receipt": ("verify", "certificate.json", "--receipt", "bad.json"),
    "commitment": ("verify", "certificate.json", "--commitment", "bad.json"),
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_json_that_is_broken_or_asks_for_too_much_is_refused(whole, reader):
    for content in JSON.values():
        put(whole, "bad.json", content)
        refused(whole, *reader)


def edited(data, path, value):
    """Return a copy of nested data in which one value is another."""
    data = copy.deepcopy(data)
    inner = data
    for step in path[:-1]:
        inner = inner[step]
    assert inner[path[-1]] != value
    inner[path[-1]] = value
    return data


def load(campaign, name):
    return json.loads((campaign / name).read_text(encoding="utf-8"))


def paper(data):
    """Return data in the one form that papers have: a change must be found by what is said, not by form."""
    if "commitments" in data:
        leaves = ",\n".join(json.dumps(leaf) for leaf in data["commitments"])
        return '{"body":' + paper(data["body"])[:-1] + ',\n"commitments":[\n' + leaves + "]}\n"
    return canonical(data).decode() + "\n"


MODELS = {
    "a coefficient too many": (("description", "cells", 0), [1, 2, 3, 4, 5]),
    "a coefficient that is a text": (("description", "cells", 0, 0), "many"),
    "a coefficient beyond every number": (("description", "cells", 0, 0), 10**400),
    "no grid": (("description", "grid"), -1.0),
    "one label": (("predicts", "values"), ["yes"]),
    "bounds in reverse": (("encoder", "columns", "age", "low"), 1e9),
    "no features": (("encoder", "columns"), {}),
    "nobody": (("records",), -1),
}


def test_a_model_that_was_changed_into_none_does_not_predict(whole):
    for path, value in MODELS.values():
        put(whole, "bad.json", json.dumps(edited(load(whole, "model.json"), path, value)))
        refused(whole, "predict", "bad.json", "data.csv", "-o", "predictions.csv")


CERTIFICATES = [
    ("body", "totals", "total_payment"),
    ("body", "totals", "total_used"),
    ("body", "totals", "sellers"),
    ("body", "release", "noise_rate"),
    ("body", "release", "terms", "l2"),
    ("body", "release", "terms", "rows_per_person"),
    ("body", "market", "objective", "payment_weight"),
    ("body", "market", "groups", 0, "virtual_cost", "knots", 0),
    ("body", "money", "minor_units"),
]


def test_a_certificate_that_was_changed_anywhere_fails_for_seller_and_auditor(whole):
    honest = load(whole, "certificate.json")
    assert paper(honest) == (whole / "certificate.json").read_text(encoding="utf-8")
    for path in CERTIFICATES:
        value = honest
        for step in path:
            value = value[step]
        put(whole, "bad.json", paper(edited(honest, path, value + 1)))
        whole.run("verify", "bad.json", "--receipt", "receipt.json", code=1)
    whole.run("verify", "bad.json", "--openings", "openings.json", code=1)
    for path, value in (
        (("body", "root"), "00" * 32),
        (("commitments", 3), "00" * 32),
        (("body", "schema"), "x"),
    ):
        put(whole, "bad.json", paper(edited(honest, path, value)))
        whole.run("verify", "bad.json", code=1)
    whole.run("verify", "certificate.json", "--digest", "00" * 32, code=1)


LINES = {"epsilon": 0.5, "payment": 1_000.0, "used": 0.0, "weight": 0.5, "withdrew": True, "salt": "00" * 32}


def test_openings_and_receipts_that_were_changed_fail(whole):
    openings, receipt = load(whole, "openings.json"), load(whole, "receipt.json")
    for name in ("openings", "receipt"):
        honest = (whole / f"{name}.json").read_text(encoding="utf-8")
        assert paper(load(whole, f"{name}.json")) == honest
    for name, value in {**LINES, "id": "somebody else"}.items():
        put(whole, "bad.json", paper(edited(openings, (name, 5), value)))
        whole.run("verify", "certificate.json", "--openings", "bad.json", code=1)
        path = (name,) if name == "salt" else ("line", name)
        put(whole, "bad.json", paper(edited(receipt, path, value)))
        whole.run("verify", "certificate.json", "--receipt", "bad.json", code=1)


def test_a_database_that_is_none_is_left_as_it_is(tmp_path):
    campaign = new_campaign(tmp_path)
    for content in (b"my notes", b"SQLite format 3\0" + b"\0" * 2_000):
        put(campaign, "rules.db", content)
        refused(campaign, "quote", "reports.csv", "-o", "quotes.csv")
        refused(campaign, "check")
        assert (campaign / "rules.db").read_bytes() == content


# --- outputs ------------------------------------------------------------------------------------

OUTPUTS = {
    "quote": ("quote", "reports.csv", "-o", "mine.csv"),
    "train": ("train", "data.csv", "-o", "mine.json"),
    "certify": ("certify", "-o", "mine.json", "--openings", "new.json"),
    "certify, openings": ("certify", "-o", "new.json", "--openings", "mine.json"),
    "receipts": ("receipts", "certificate.json", "openings.json", "-o", "mine.csv"),
    "payouts": ("payouts", "-o", "mine.csv"),
    "predict": ("predict", "model.json", "data.csv", "-o", "mine.csv"),
    "report": ("report", "-o", "mine.html"),
    "commit": ("commit", "-o", "mine.json"),
    "init": ("init", "mine.toml"),
}


@pytest.mark.parametrize("command", OUTPUTS.values(), ids=OUTPUTS)
def test_no_file_is_overwritten_unless_the_user_says_so(whole, command):
    (name,) = [part for part in command if part.startswith("mine.")]
    put(whole, name, "mine")
    assert name in refused(whole, *command)
    assert (whole / name).read_text() == "mine"


def test_a_file_is_replaced_if_the_user_says_so(whole):
    for name in ("predict", "commit", "payouts"):
        *command, output = OUTPUTS[name]
        put(whole, output, "mine")
        whole.run(*command, output, "--force")
        assert (whole / output).read_text(encoding="utf-8") != "mine"


def test_inputs_rules_and_database_are_never_an_output(quoted):
    database = (quoted / "rules.db").read_bytes()
    for output in ("reports.csv", "rules.toml", "rules.db"):
        refused(quoted, "quote", "reports.csv", "-o", output, "--force")
    for output in ("data.csv", "rules.toml", "rules.db"):
        refused(quoted, "train", "data.csv", "-o", output, "--force")
    assert (quoted / "rules.db").read_bytes() == database


def test_an_output_that_cannot_be_written_is_refused_before_anything_is_spent(quoted):
    for output in ("nowhere/model.json", "."):
        refused(quoted, "train", "data.csv", "-o", output)
    assert is_open(quoted)


def test_a_refusal_with_force_leaves_the_file_that_is_there(quoted):
    put(quoted, "bad.csv", REPORTS["a text"])
    refused(quoted, "quote", "bad.csv", "-o", "quotes.csv", "--force")


USAGE = [
    ("quote",),
    ("quote", "reports.csv"),
    ("quote", "reports.csv", "-o", "new.csv", "--generous"),
    ("train", "data.csv"),
    ("withdraw",),
    ("payouts", "--repeat", "first", "-o", "new.csv"),
    ("plan", "--budget", "much"),
    ("no-such-command",),
]


def test_wrong_usage_has_an_exit_code_of_its_own_and_does_nothing(quoted):
    for arguments in USAGE:
        refused(quoted, *arguments, code=2)


def test_values_outside_public_bounds_are_refused_where_the_rules_say_so(tmp_path):
    good = GOODS["two classes"]
    rules = {**good.rules(100), "training": {"outside_bounds": "refuse"}}
    ids, costs, people = sellers(good, 20)
    people[3][0]["age"] = 91
    campaign = FileCampaign(tmp_path, rules, *tables(ids, costs, people))
    campaign.quote()
    done = campaign.train(code=1)
    assert "age" in done.err
    assert not (campaign / "model.json").exists()


def test_a_database_with_a_table_of_something_else_is_left_alone(quoted, tmp_path):
    with sqlite3.connect(quoted / "rules.db") as known:
        names = [name for (name,) in known.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    campaign = FileCampaign(tmp_path, GOOD.rules(100), *tables(*sellers(GOOD, NUMBER)))
    for name in names[:3]:
        (campaign / "rules.db").unlink(missing_ok=True)
        with sqlite3.connect(campaign / "rules.db") as other:
            other.execute(f'CREATE TABLE "{name}" (mine TEXT)')
        refused(campaign, "quote", "reports.csv", "-o", "quotes.csv")
        with sqlite3.connect(campaign / "rules.db") as other:
            assert [row[0] for row in other.execute("SELECT name FROM sqlite_master")] == [name]


def test_an_act_that_is_refused_for_one_seller_is_done_for_none(quoted):
    refused(quoted, "withdraw", "seller 7", "nobody of this name")
    assert is_open(quoted)
