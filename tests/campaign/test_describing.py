"""What ``show`` says about each kind of file: totals, never an individual."""

import json

import pytest

from dpmarket import FileProblem
from dpmarket.campaign import decide_offline, describe, quote_file, train_file, withdraw_sellers
from dpmarket.ledger import open_ledger
from support.campaigns import make_campaign, read_rows, seller_ids


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaign")
    make_campaign(folder)
    quote_file(folder / "market.toml", folder / "reports.csv", folder / "quotes.csv", decide_offline)
    withdraw_sellers(folder / "market.toml", folder / "quotes.csv", ["007"])
    train_file(folder / "market.toml", folder / "quotes.csv", folder / "data.csv", folder / "model.json")
    return folder


@pytest.mark.parametrize("name", ["quotes.csv", "model.json", "market.toml", "market.ledger"])
def test_every_kind_of_file_is_described_in_words_and_as_data_without_any_seller(folder, name):
    found = describe(folder / name)
    assert found.rows
    text = json.dumps(found.data) + str(found.rows)
    assert not any(repr(seller) in text for seller in seller_ids(60) if seller.startswith("seller "))


def test_totals_are_the_sums_of_what_the_quotes_say(folder):
    rows = read_rows(folder / "quotes.csv")
    epsilons = [float(row["epsilon"]) for row in rows]
    quotes, ledger = describe(folder / "quotes.csv").data, describe(folder / "market.ledger").data
    assert quotes["sellers"] == ledger["sellers"] == 60
    assert quotes["total_promise"] == pytest.approx(sum(epsilons))
    gone = next(row for row in rows if row["seller"] == "007")
    assert ledger["promised"] == pytest.approx(sum(epsilons) - float(gone["epsilon"]))
    assert ledger["spent"] <= ledger["promised"]
    paid = sum(int(row["payment_minor_units"]) for row in rows)
    assert quotes["total_payment_minor_units"] == paid
    (campaign,) = ledger["campaigns"]
    assert campaign["balance_minor_units"]["owed"] == paid - int(gone["payment_minor_units"])
    (entered,) = campaign["rounds"]
    assert (entered["state"], entered["withdrawn"]) == ("released", 1)
    assert entered["identity"] == quotes["round"]
    assert "60 sellers, 1 withdrew, offline, released" in str(describe(folder / "market.ledger").rows)


def test_a_file_of_another_kind_is_refused(folder, tmp_path):
    with pytest.raises(FileProblem, match="ending in"):
        describe(tmp_path / "notes.txt")
    with pytest.raises(FileProblem, match="cannot find 'epsilon'"):
        describe(folder / "data.csv")
    with open_ledger(tmp_path / "new.ledger"):
        pass
    assert describe(tmp_path / "new.ledger").data["campaigns"] == []
