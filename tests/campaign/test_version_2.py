"""Ledgers of version 2: put back they are themselves; they keep their scale, and know their people."""

import shutil
import sqlite3
import unicodedata
from pathlib import Path

import polars as pl
import pytest

from dpmarket.campaign import decide_offline, pay_out, quote_file, statement_of, train_file, withdraw_sellers
from dpmarket.errors import FileProblem, LedgerRefusal
from dpmarket.ledger import (
    charges,
    check_everything,
    existing_ledger,
    open_ledger,
    reading,
    repair,
    rounds_of,
)
from dpmarket.ledger.rounds import campaigns_of
from support.campaigns import read_rows, write_rows
from support.desks import copy_ledger

SOURCE = Path(__file__).parents[1] / "ledger" / "data"


@pytest.fixture
def folder(tmp_path):
    for name in ("market.toml", "open.csv", "data.csv"):
        shutil.copy(SOURCE / name, tmp_path / name)
    shutil.copy(SOURCE / "version-2.ledger", tmp_path / "market.ledger")
    return tmp_path


def train(folder, output="model.json"):
    return train_file(folder / "market.toml", folder / "open.csv", folder / "data.csv", folder / output)


def test_the_copy_of_version_2_that_was_kept_does_not_train_again(folder):
    assert train(folder).is_new
    with existing_ledger(folder / "market.ledger") as before, reading(before) as connection:
        identities = [found.identity for found in rounds_of(connection)]
    pay_out(folder / "market.toml", folder / "paid.csv")
    copy_ledger(folder / "market.ledger.version-2", folder / "market.ledger")
    with pytest.raises(LedgerRefusal, match="was an older copy put back"):
        train(folder, "second.json")
    with existing_ledger(folder / "market.ledger") as again:
        assert (again.id, again.key) == (before.id, before.key)
        assert repair(again).spent == 1
        with reading(again) as connection:
            check_everything(connection, again)
            assert [found.identity for found in rounds_of(connection)] == identities
            assert [found.state for found in rounds_of(connection)] == ["released", "lost", "lost"]
    with pytest.raises(LedgerRefusal, match="spent at"):
        train(folder, "second.json")
    with pytest.raises(LedgerRefusal, match="paid out already"):
        pay_out(folder / "market.toml", folder / "again.csv")
    # A bank that saw the payments can tell them.
    pay_out(folder / "market.toml", folder / "again.csv", repeat=1)
    assert read_rows(folder / "again.csv") == read_rows(folder / "paid.csv")


def test_other_ledgers_of_version_2_are_others(folder):
    with open_ledger(folder / "market.ledger") as one:
        pass
    with sqlite3.connect(folder / "market.ledger.version-2") as copy:
        copy.execute("UPDATE round SET quoted_at = '2020-01-01T00:00:00+00:00' WHERE number = 1")
    copy.close()
    with open_ledger(folder / "market.ledger.version-2") as other:
        assert other.id != one.id


def quote(folder, output="quotes.csv"):
    write_rows(folder / "reports.csv", ["seller", "cost"], [(f"new {k}", 1.0 + k / 5) for k in range(12)])
    return quote_file(folder / "market.toml", folder / "reports.csv", folder / output, decide_offline)


def test_the_scale_of_a_campaign_without_rules_cannot_change(folder):
    text = (folder / "market.toml").read_text()
    assert "[money]" not in text
    (folder / "market.toml").write_text(text + "\n[money]\nminor_units = 1\n")
    with pytest.raises(LedgerRefusal, match=r"money\.minor_units was 100 and is now 1"):
        quote(folder)
    assert not (folder / "quotes.csv").exists()
    (folder / "market.toml").write_text(text)
    assert quote(folder).is_new


def test_rounds_of_other_scales_become_campaigns_of_their_own(folder):
    with sqlite3.connect(folder / "market.ledger") as old:
        old.execute("UPDATE round SET minor_units = 1000 WHERE number = 1")
    old.close()
    with open_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
        check_everything(connection, ledger)
        names = {found.name: found.minor_units for found in campaigns_of(connection)}
        assert names == {"": 100, "version 2, 1000 minor units": 1000}
        assert all(
            found.minor_units == {c.id: c.minor_units for c in campaigns_of(connection)}[found.campaign]
            for found in rounds_of(connection)
        )


ODD = ' Zo\u00eb "Z" \u00d3 N\u00e9ill, jr. '


def test_people_with_ids_that_would_be_refused_today_are_not_stuck(folder):
    """Blanks around an id, and the same letters in two forms, which are two people in this ledger."""
    ids = [row["seller"] for row in read_rows(folder / "open.csv")]
    assert {ODD, "e\u0301", "\u00e9"} <= set(ids)
    market = folder / "market.toml"
    assert statement_of(market, ODD)
    assert statement_of(market, "e\u0301")
    assert withdraw_sellers(market, folder / "open.csv", [ODD.strip()]) == 1
    assert withdraw_sellers(market, folder / "open.csv", [ODD]) == 0
    with pytest.raises(FileProblem, match="without blanks"):
        withdraw_sellers(market, folder / "open.csv", [" 7"] if " 7" in ids else [" nobody "])
    result = train(folder)
    promised = [row for row in read_rows(folder / "open.csv") if float(row["epsilon"]) > 0.0]
    assert result.model.records == len(promised) - 1


def test_people_of_version_2_are_known_by_every_spelling_of_their_ids(folder):
    written = [row["seller"] for row in read_rows(folder / "open.csv")]
    tidy = [unicodedata.normalize("NFC", seller.strip()) for seller in written]
    odd = [seller for seller, own in zip(tidy, written, strict=True) if seller != own]
    assert len(odd) == 2
    write_rows(folder / "new.csv", ["seller", "cost"], [(seller, 2.0) for seller in odd])
    with pytest.raises(LedgerRefusal, match="2 of 2 sellers have an open promise"):
        quote_file(folder / "market.toml", folder / "new.csv", folder / "new-quotes.csv", decide_offline)
    with existing_ledger(folder / "market.ledger") as ledger, reading(ledger) as connection:
        counted = charges(connection, pl.DataFrame({"seller": [*odd, "somebody else"]}))
    assert (counted > 0.0).tolist() == [True, True, False]
