"""Campaigns over many files: quotes in a file for each file of reports, and what workers do with one file.

One pass checks all reports and sums up what prices need; one writes quotes. What workers return is all that
leaves them: ids for the list of sellers and, without a budget, the costs of at most a million reports, which
the exact mechanism decides about in one place. A file of quotes is for everybody in the file of reports, in
its order, without excluded people, and as far as the budget reaches.
"""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import binding_of
from dpmarket.campaign.file_quotes import opened, refuse_first
from dpmarket.campaign.file_records import FileRecords
from dpmarket.campaign.file_reports import excluded_ids, normal_ids, read_reports
from dpmarket.campaign.log import canonical
from dpmarket.campaign.money import ESCROW, free_by_pool
from dpmarket.campaign.opening import decide_for
from dpmarket.campaign.partitions import (
    CHANNEL,
    QuotesFile,
    enter_quotes_files,
    files_of,
    has_limits,
    read_files,
    refuse_limit,
    sha256_of,
)
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import Place, Source
from dpmarket.campaign.quoting import Reports
from dpmarket.campaign.rules.columns import OUTCOME, Records
from dpmarket.campaign.rules.decision import (
    Binding,
    bound_salt,
    cross_pricing_of,
    is_cross_priced,
    refuse_too_many,
    sellers_digest,
)
from dpmarket.campaign.rules.pricing import OFFLINE, online_schedules, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Sellers
from dpmarket.campaign.transaction import campaign_of
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import numbers_of, read_table, refuse, refuse_existing
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule, quote_each
from dpmarket.progress import StageProgress

_EXACT = 1_000_000
"""Without a budget an offline campaign is decided about at once: at most so many reports."""
_LARGEST = 2**60


class Parts(Protocol):
    """Values elsewhere, in order, and what is computed from each of them."""

    def __len__(self) -> int:
        """Return how many there are."""

    def map(self, function: Callable[..., Any], *each: Sequence[Any], **same: Any) -> Parts:
        """Return a function's values for each part, with the part's own elements of ``each``."""

    def get(self, function: Callable[..., Any], *each: Sequence[Any], **same: Any) -> list[Any]:
        """Bring a function's values for each part here, in order."""

    def repeated(self) -> int:
        """Return how many of the numbers in sorted parts stand in two places."""


class Seen(NamedTuple):
    """What is learnt of a file of reports before prices are known.

    ``total`` is what a public schedule pays for it, in minor units, and 0 where reports decide about prices.
    """

    people: int
    excluded: int
    below: int
    above: int
    lowest: float
    sha256: str
    total: int


@dataclass(frozen=True)
class Prices:
    """The public schedule by which everybody is quoted, or one for each part of the sellers."""

    rules: Rules
    schedules: Sequence[PriceSchedule]
    salt: bytes = b""

    def quote(self, ids: pl.Series, costs: FloatArray) -> tuple[FloatArray, IntArray]:
        """Return epsilons, and payments in minor units that cover everybody's loss."""
        one = len(self.schedules) == 1
        parts = np.zeros(costs.size, dtype=np.int64) if one else split(ids.to_list(), self.salt)
        epsilons, payments = quote_each(self.schedules, parts, costs)
        losses = terms_of(self.rules).epsilon_cost.cost_of_epsilon(epsilons)
        amounts = whole_units(payments, self.rules.money.minor_units, costs, losses)
        return epsilons, np.where(epsilons > 0.0, np.maximum(amounts, 1), 0)


def public_prices(rules: Rules) -> Prices | None:
    """Return how everybody is quoted by the rules alone; None where reports decide."""
    return None if rules.campaign.mechanism == OFFLINE else Prices(rules, [online_schedules(rules)[0][0]])


def many_files(pattern: str | os.PathLike[str]) -> list[Path]:
    """Return the Parquet files of a pattern, or of a folder, by name; refuses files with another ending."""
    text = os.fspath(pattern)
    found = sorted(map(Path, glob.glob(os.path.join(text, "*.parquet") if os.path.isdir(text) else text)))
    if not found or any(one.suffix != ".parquet" for one in found):
        raise FileProblem(f"expected .parquet files in {text}, found {'others' if found else 'none'}.")
    return [one.resolve() for one in found]


def part_name(number: int) -> str:
    """Return the name of a file among many."""
    return f"part-{number:05d}.parquet"


def look(
    path: Path, rules: Rules, rules_path: Path, prices: Prices | None, key: int
) -> tuple[Seen, pl.Series]:
    """Check a file of reports; return what is learnt of it, and keyed hashes of its ids, sorted."""
    found = read_reports(rules, rules_path, path)
    ids, costs = found.table.get_column("id"), found.table.get_column("cost").to_numpy()
    total = 0 if prices is None else int(prices.quote(ids, costs)[1].sum())
    lowest = float(costs.min(initial=np.inf))
    seen = Seen(costs.size, len(found.excluded), found.below, found.above, lowest, sha256_of(path), total)
    return seen, ids.hash(key).sort()


def reports_in(path: Path, rules: Rules, excluded: Collection[str]) -> tuple[pl.Series, FloatArray]:
    """Return ids in the one form and costs of a file that was checked before, without excluded people."""
    id_column, cost_column = rules.sellers.id_column, rules.sellers.cost_column
    table = read_table(path, [id_column, cost_column], [id_column], [cost_column])
    (ids, _), (costs, _) = normal_ids(table, id_column), numbers_of(table, cost_column)
    kept = ~ids.is_in(list(excluded))
    return ids.filter(kept), costs[kept.to_numpy()]


def hashes_in(path: Path, rules: Rules, excluded: Collection[str], key: int) -> pl.Series:
    """Return keyed hashes of the ids in a file that was checked before, sorted."""
    return reports_in(path, rules, excluded)[0].hash(key).sort()


def histograms_of(
    reports: tuple[pl.Series, FloatArray], mechanism: CrossPricedMechanism, salt: bytes
) -> FloatArray:
    """Return the histograms of a file's reports by part of the sellers."""
    ids, costs = reports
    return mechanism.histograms(costs, np.zeros(costs.size, dtype=np.int64), split(ids.to_list(), salt))


def write_quotes(
    path: Path, decided: Any, room: int, target: str, *, rules: Rules, excluded: Collection[str],
    prices: Prices | None, largest: int,
) -> QuotesFile:  # fmt: skip
    """Write the quotes of a file, as far as escrow has room for the largest payment before each.

    ``decided`` has epsilons and payments where all reports decided together; else ``prices`` give them.
    """
    ids, costs = reports_in(path, rules, excluded)
    epsilons, amounts = decided if prices is None else prices.quote(ids, costs)
    before = np.cumsum(amounts) - amounts
    count = int(np.searchsorted(before, room - largest, side="right")) if room >= largest else 0
    epsilons, amounts = epsilons[:count], amounts[:count]
    pl.DataFrame(
        {
            rules.sellers.id_column: ids.head(count),
            "epsilon": epsilons,
            "payment": in_money(pl.Series(amounts), rules.money.minor_units),
            "payment_minor_units": amounts,
        }
    ).with_columns(currency=pl.lit(rules.money.currency)).write_parquet(target, compression="lz4")
    return QuotesFile(target, int((amounts > 0).sum()), int(amounts.sum()), sha256_of(target))


def people_in_file(path: Path, column: str) -> pl.Series:
    """Return the people of a file, in the order of their first rows; other problems are reported later."""
    table = read_table(path, [column], [column])
    ids, problems = normal_ids(table, column)
    refuse(table, path, problems)
    return ids.unique(maintain_order=True)


def records_in(path: Path, people: list[str], rules: Rules) -> Records:
    """Return the rows of these people, as a file campaign reads them."""
    key, number = bytes(32), len(people)
    nothing: list[Any] = [None] * number
    own = Sellers([0] * number, person_digests(key, people), nothing, np.ones(number), nothing, nothing)
    return FileRecords(rules, path, key, None).read(own)


def encoded(records: Records, epsilons: FloatArray, encoder: Any, names: list[str]) -> tuple[Any, ...]:
    """Return encoded rows, outcomes, owners and epsilons of records."""
    rows = encoder.fit_transform({name: records.columns[name] for name in names})
    return rows, records.columns[OUTCOME], records.owners, epsilons


@dataclass(frozen=True)
class QuotedFiles:
    """What quoting many files came to.

    Attributes
    ----------
    sellers, bought_from, total_epsilon, total_payment
        Of everybody together, payments in minor units.
    files, is_new, state
        How many files of quotes there are, whether they were entered now, and the campaign's state.
    left_out
        How many people were not quoted, by reason.
    below, above
        How many costs lie below and above the distribution.
    """

    sellers: int
    bought_from: int
    total_epsilon: float
    total_payment: int
    files: int
    is_new: bool
    state: str
    left_out: dict[str, int]
    below: int
    above: int


def quote_parts(
    place: Place, parts: Parts, folder: Source, *, confirmed: bool, progress: StageProgress
) -> QuotedFiles:
    """Quote every seller of files of reports, given as parts, into a new folder.

    Nothing is entered before all files are checked; the same reports have the same quotes again.
    """
    rules, target = place.rules, Path(folder).absolute()
    prices = public_prices(rules)
    same: dict[str, Any] = {"rules": rules, "excluded": excluded_ids(rules, place.path)}
    progress("Reading reports", 0.0)
    check = partial(look, rules=rules, rules_path=place.path.absolute(), prices=prices)
    looked = parts.map(check, key=secrets.randbits(60))
    seen: list[Seen] = looked.get(getitem, [0] * len(parts))
    people, lowest = sum(one.people for one in seen), min(one.lowest for one in seen)
    shared = looked.map(getitem, [1] * len(parts)).repeated()
    del looked
    if shared and parts.map(hashes_in, key=secrets.randbits(60), **same).repeated():  # not by chance
        raise MarketRefusal("invalid", f"{shared:,} ids stand in two rows of the reports.")
    refuse_too_many(rules, people)
    refuse = partial(refuse_first, rules, people, lowest, confirmed=confirmed)
    if not place.is_there:
        refuse()
    with place.open(make=True) as market:
        refuse_limit(is_there=has_limits(market))
        campaign = opened(market, rules, refuse, channel=CHANNEL)
        assert campaign is not None
        content = "".join(one.sha256 for one in seen).encode()
        digest = hashlib.blake2b(content, key=market.key, digest_size=32).hexdigest()
        with market.look() as c:
            free, known = free_by_pool(c, campaign.id)[ESCROW], files_of(c, campaign.id)
        if campaign.reports_digest is not None or campaign.state != "open":
            if campaign.reports_digest != digest:
                raise MarketRefusal("state", "This campaign was quoted for other reports, or is not open.")
            return _told(known, seen, campaign.state, is_new=False)
        refuse_existing(target)
        progress("Deciding epsilons and payments", 0.4)
        decided: list[Any] = [None] * len(parts)
        offer: dict[str, Any] = {}
        if prices is None:
            binding = binding_of(market.key, campaign)
            prices, decided, offer = _priced(binding, parts, people, same)
        before = np.concatenate([[0], np.cumsum([one.total for one in seen])[:-1]])
        limited = campaign.mechanism != OFFLINE and not campaign.self_funded
        rooms = ((free if limited else _LARGEST) - before).tolist()
        progress("Writing quotes", 0.6)
        aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            names = [str(aside / part_name(k)) for k in range(len(seen))]
            write = partial(write_quotes, prices=prices, largest=campaign.largest or 0, **same)
            made: list[QuotesFile] = parts.get(write, decided, rooms, names)
            quotes = [replace(one, path=str(target / Path(one.path).name)) for one in made]
            if not sum(one.people for one in quotes):
                raise MarketRefusal("funds", "Nobody can be quoted: the budget is full.")
            os.rename(aside, target)
            market.run(enter_quotes_files, OWNER, campaign.id, quotes, canonical(offer), digest)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            with market.look() as c:
                is_entered = bool(files_of(c, campaign.id))
            if not is_entered:  # else nothing could write the same files again
                shutil.rmtree(target, ignore_errors=True)
            raise
        with market.look() as c:
            state = campaign_of(c, campaign.id).state
    return _told(quotes, seen, state, is_new=True)


def refuse_rules(rules: Rules) -> None:
    """Refuse a lifetime limit, and what is done only in one place."""
    refuse_limit(is_there=rules.sellers.lifetime_epsilon is not None)
    if rules.groups:
        raise Infeasible("A campaign over many files cannot have groups: leave them out.")
    for key, value in (("intervals", rules.training.intervals), ("model", rules.training.model)):
        if value is not None:
            raise Infeasible(f"A campaign over many files cannot use training.{key}: leave it out.")


def _told(files: list[QuotesFile], seen: list[Seen], state: str, *, is_new: bool) -> QuotedFiles:
    """Return what files of quotes have together."""
    columns = [table.select(pl.len(), pl.col("epsilon").sum()).row(0) for table in read_files(files)]
    quoted, epsilon = map(sum, zip(*columns, strict=True))
    left = {"full": sum(one.people for one in seen) - quoted, "excluded": sum(one.excluded for one in seen)}
    return QuotedFiles(
        quoted, sum(one.people for one in files), epsilon, sum(one.payments for one in files), len(files),
        is_new, state, {name: number for name, number in left.items() if number},
        sum(one.below for one in seen), sum(one.above for one in seen),
    )  # fmt: skip


def _priced(
    binding: Binding, parts: Parts, people: int, same: dict[str, Any]
) -> tuple[Prices | None, list[Any], dict[str, Any]]:
    """Return the prices that follow from reports, or what was decided about each file, and the offer."""
    rules: Rules = same["rules"]
    if not is_cross_priced(rules, people) and people > _EXACT:
        raise Infeasible(
            f"expected objective.budget for more than {_EXACT:,} reports: it prices part by part."
        )
    found = parts.map(reports_in, **same)
    names = [name for ids in found.get(getitem, [0] * len(parts)) for name in ids]
    if is_cross_priced(rules, people):
        mechanism, public = cross_pricing_of(rules)
        sellers = sellers_digest(binding.nonce, names)
        salt = bound_salt(binding.rules, sellers)
        histograms = found.get(histograms_of, mechanism=mechanism, salt=salt)
        prices = mechanism.price(sum(histograms), salt)
        offer = public | {**prices.to_dict(), "sellers": sellers, "nonce": binding.announced}
        schedules = [schedule for (schedule,) in prices.schedules]
        return Prices(rules, schedules, salt), [None] * len(histograms), offer
    costs = found.get(getitem, [1] * len(parts))
    reported = np.concatenate(costs)
    decision = decide_for(rules, binding)(Reports([], reported, [ESCROW] * reported.size, names))
    ends = np.cumsum([one.size for one in costs])[:-1]
    amounts = decision.whole(rules.money.minor_units)
    each = zip(np.split(decision.epsilons, ends), np.split(amounts, ends), strict=True)
    return None, list(each), decision.offer
