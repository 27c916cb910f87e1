"""A campaign's files in a folder, and the steps of the file desk with their usual names."""

import shutil
from pathlib import Path

import numpy as np

from dpmarket.campaign import (
    decide_offline,
    decide_online,
    enter_payout_file,
    pay_out,
    quote_file,
    statement_of,
    train_file,
    withdraw_sellers,
)
from dpmarket.ledger import accounts, balance_of, check_everything, existing_ledger, reading, rounds_of
from support.campaigns import HEADER, MARKET, make_campaign, write_rows


def market_text(**tables):
    """Return the market file with further keys, by table: ``market_text(sellers={"expected": 60})``."""
    text = MARKET
    for table, keys in tables.items():
        lines = "".join(f"{name} = {_toml(value)}\n" for name, value in keys.items())
        heading = f"[{table}]\n"
        if heading in text:
            text = text.replace(heading, heading + lines)
        else:
            text += f"\n{heading}{lines}"
    if {"budget", "payment_weight"} & set(tables.get("objective", {})):
        text = text.replace("payment_weight = 0.001\n", "")
    return text


def _toml(value):
    return f'"{value}"' if isinstance(value, str | Path) else str(value)


class Desk:
    """A folder with a market file, reports and data of sellers, and one ledger."""

    def __init__(self, folder, sellers=60, market=MARKET, seed=0, ledger=None):
        folder.mkdir(exist_ok=True)
        self.folder, self.place = folder, ledger
        self.costs = make_campaign(folder, sellers, market, seed)

    def __truediv__(self, name):
        return self.folder / name

    @property
    def market(self):
        return self / "market.toml"

    def report(self, name, rows):
        write_rows(self / name, ["seller", "cost"], rows)

    def quote(self, reports="reports.csv", output="quotes.csv", online=False, overwrite=True, **options):
        decide = decide_online if online else decide_offline
        return quote_file(
            self.market,
            self / reports,
            self / output,
            decide,
            overwrite=overwrite,
            ledger=self.place,
            **options,
        )

    def train(self, *quotes, data="data.csv", output="model.json"):
        files = [self / name for name in quotes or ("quotes.csv",)]
        return train_file(self.market, files, self / data, self / output, overwrite=True, ledger=self.place)

    def withdraw(self, *sellers, quotes="quotes.csv"):
        return withdraw_sellers(self.market, self / quotes, sellers, ledger=self.place)

    def pay(self, output="payouts.csv", **options):
        return pay_out(self.market, self / output, overwrite=True, ledger=self.place, **options)

    def enter(self, source, kind):
        return enter_payout_file(self.market, self / source, kind, ledger=self.place)

    def statement(self, seller):
        return statement_of(self.market, seller, ledger=self.place)

    def looked(self, look):
        """Return what a function of a connection says, after the ledger was checked."""
        with existing_ledger(self.place or self / "market.ledger") as ledger, reading(ledger) as connection:
            check_everything(connection, ledger)
            return look(connection)

    def rounds(self):
        return self.looked(rounds_of)

    def accounts(self):
        return self.looked(lambda connection: {row[0]: row[1:] for row in accounts(connection).rows()})

    def balance(self):
        return self.looked(lambda connection: balance_of(connection, rounds_of(connection)[-1].campaign))

    def records_of(self, ids, name="data.csv", seed=3):
        """Write a record for each of these sellers."""
        rng = np.random.default_rng(seed)
        rows = [
            (rng.uniform(0, 1e5), seller, rng.uniform(18, 90), rng.choice(["no", "yes"])) for seller in ids
        ]
        write_rows(self / name, HEADER, rows)

    def files(self):
        """Return the content of every file but what SQLite keeps beside the ledger."""
        return {
            path.name: path.read_bytes()
            for path in self.folder.iterdir()
            if path.is_file() and not path.name.endswith(("-wal", "-shm"))
        }


def copy_ledger(path, target):
    """Copy a ledger as somebody does who knows that the -wal file belongs to it."""
    for ending in ("", "-wal"):
        source, copy = Path(f"{path}{ending}"), Path(f"{target}{ending}")
        copy.unlink(missing_ok=True)
        if source.exists():
            shutil.copy(source, copy)
    Path(f"{target}-shm").unlink(missing_ok=True)
