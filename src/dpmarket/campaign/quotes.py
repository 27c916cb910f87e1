"""Quotes as a file and as a value: read and written here and nowhere else."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.ids import id_problems, tidy_ids
from dpmarket.errors import FileProblem
from dpmarket.files import column_names, find, numbers_of, read_table, refuse
from dpmarket.ledger.rounds import EPSILON, PAYMENT, SELLER

_ABOUT = ("currency", "minor_units", "round")
_MONEY = "payment"


@dataclass(frozen=True, eq=False)
class Quotes:
    """What every seller of a round was promised and is paid. Confidential.

    Attributes
    ----------
    table
        Columns seller, epsilon, payment_minor_units.
    scale
        Minor units to one unit of money.
    currency
        Its short name; empty if the market file names none.
    round
        The identity of the round in its ledger.
    """

    table: pl.DataFrame
    scale: int
    currency: str
    round: str

    def __len__(self) -> int:
        return self.table.height

    @property
    def seller_ids(self) -> list[str]:
        """The sellers, in the file's order."""
        return list(self.table.get_column(SELLER).to_list())

    @property
    def epsilons(self) -> FloatArray:
        """The promises, shape (sellers,)."""
        return np.asarray(self.table.get_column(EPSILON).to_numpy())

    @property
    def amounts(self) -> IntArray:
        """The payments in minor units, shape (sellers,)."""
        return np.asarray(self.table.get_column(PAYMENT).to_numpy())

    def as_written(self, id_column: str) -> pl.DataFrame:
        """Return the table of the file: what is the same for all stands in the first row only."""
        columns: dict[str, Any] = {
            id_column: self.table.get_column(SELLER),
            EPSILON: self.table.get_column(EPSILON),
            _MONEY: self.amounts / self.scale,
            PAYMENT: self.table.get_column(PAYMENT),
        }
        # Ten million gaps are encoded in a quarter of the time where the values are known. Rounds are texts
        # all the same, so that files of several rounds can be put below each other.
        values = (self.currency, str(self.scale), self.round)
        kinds = (pl.Enum([self.currency]), pl.Enum([str(self.scale)]), pl.String())
        for name, value, kind in zip(_ABOUT, values, kinds, strict=True):
            columns[name] = pl.Series([value], dtype=kind).extend_constant(None, len(self) - 1)
        return pl.DataFrame(columns)


def read_quotes(source: str | os.PathLike[str], id_column: str | None = None) -> Quotes:
    """Read a quotes file.

    Parameters
    ----------
    source
        .csv or .parquet, as ``quote`` wrote it; ``-`` is the standard input.
    id_column
        The column with the sellers' ids; None: the first column.

    Raises
    ------
    FileProblem
        Cells that are no numbers, epsilons that are negative, payments that are not whole or of another
        scale, rows of several rounds.
    """
    if id_column is None:
        id_column = column_names(source)[0]
    wanted = [id_column, EPSILON, PAYMENT, _MONEY, *_ABOUT]
    numbers = [EPSILON, PAYMENT, _MONEY]
    table = tidy_ids(read_table(source, wanted, [id_column, *_ABOUT], numbers, if_there=[_MONEY]), id_column)
    epsilons, problems = numbers_of(table, EPSILON)
    payments, more = numbers_of(table, PAYMENT)
    whole = np.isnan(payments) | ((payments == np.rint(payments)) & (payments >= 0.0) & (payments < 2.0**53))
    problems += more
    problems += find(EPSILON, "an epsilon below 0", epsilons < 0.0)
    problems += find(PAYMENT, "no whole number of minor units", ~whole)
    problems += id_problems(table, id_column)
    refuse(table, source, problems)
    currency, scale, identity = (_said(table, name, source) for name in _ABOUT)
    if scale is None or not (scale.isdecimal() and 0 < int(scale) < 2**53):
        raise FileProblem(f"cannot use {source}: expected minor_units to be a whole number >= 1.")
    if identity is None:
        raise FileProblem(f"cannot use {source}: it does not say of which round it is.")
    if _MONEY in table.columns:
        money, problems = numbers_of(table, _MONEY)
        problems += find(_MONEY, "other money than minor units say", money != payments / int(scale))
        refuse(table, source, problems)
    columns = {
        SELLER: table.get_column(id_column),
        EPSILON: epsilons,
        PAYMENT: payments.astype(np.int64),
    }
    return Quotes(pl.DataFrame(columns), int(scale), currency or "", identity)


def _said(table: pl.DataFrame, name: str, source: str | os.PathLike[str]) -> str | None:
    """Return the one value of a column in which only some rows say it, None if none does."""
    if name not in table.columns:
        return None
    said = [value for value in table.get_column(name).unique().to_list() if value]
    if len(said) > 1:
        raise FileProblem(
            f"cannot use {source}: its rows are of several rounds; give every quotes file by itself."
        )
    return said[0] if said else None
