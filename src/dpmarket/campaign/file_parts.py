"""Campaigns over many files: quotes in a file for each file of reports, and what workers do with one file.

One pass checks all reports and sums up what prices need; one writes quotes. What workers return is all that
leaves them: ids for the list of sellers and, without a budget, the costs of at most a million reports.
"""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import binding_of
from dpmarket.campaign.file_quotes import EXCLUDED, FULL, Quoting, open_campaign, refuse_first
from dpmarket.campaign.file_reports import excluded_ids, normal_ids, read_records, read_reports
from dpmarket.campaign.log import canonical
from dpmarket.campaign.money import ESCROW, free_by_pool
from dpmarket.campaign.opening import decide_for
from dpmarket.campaign.partitions import (
    CHANNEL,
    NO_ACCOUNTS,
    QuotesFile,
    enter_quotes_files,
    files_of,
    read_files,
    sha256_of,
)
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import Place, Source
from dpmarket.campaign.quoting import Reports, priced
from dpmarket.campaign.rules.columns import OUTCOME, Records
from dpmarket.campaign.rules.decision import (
    Binding,
    bound_salt,
    cross_pricing_of,
    is_cross_priced,
    refuse_too_many,
    sorted_digest,
)
from dpmarket.campaign.rules.pricing import OFFLINE, online_schedules, terms_of
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import sellers_by
from dpmarket.campaign.transaction import campaign_of
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import numbers_of, read_table, refuse_existing, refuse_unwritable
from dpmarket.mechanisms.cross_pricing import CrossPricedMechanism, split
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule, quote_each
from dpmarket.progress import StageProgress

_EXACT = 1_000_000  # without a budget an offline campaign is decided about at once: at most so many reports
_AT_ONCE, _SPACING = 1 << 22, 1 << 10
"""So many ids of all files are here at a time, in ranges between ids so far apart in each file."""
Hashes = NDArray[np.uint64]


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


class Written(NamedTuple):
    """A file of quotes, how many people are in it, and their epsilons together."""

    file: QuotesFile
    people: int
    epsilon: float


class Seen(NamedTuple):
    """What is learnt of a file of reports; its quotes where the rules alone decide about prices."""

    people: int
    excluded: int
    below: int
    above: int
    lowest: float
    sha256: str
    quotes: Written | None


@dataclass(frozen=True)
class Prices:
    """The public schedule by which everybody is quoted, or one for each part of the sellers."""

    rules: Rules
    schedules: Sequence[PriceSchedule]

    def quote(self, costs: FloatArray, parts: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Return epsilons by part of the sellers, and payments in minor units that cover everybody's loss."""
        if parts is None:
            return priced(self.schedules[0], costs, self.rules.money.minor_units)
        epsilons, payments = quote_each(self.schedules, parts, costs)
        losses = terms_of(self.rules).epsilon_cost.cost_of_epsilon(epsilons)
        amounts = whole_units(payments, self.rules.money.minor_units, costs, losses)
        return epsilons, np.where(epsilons > 0.0, np.maximum(amounts, 1), 0)


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
    path: Path, target: str, rules: Rules, rules_path: Path, prices: Prices | None, key: int
) -> tuple[Seen, Hashes]:
    """Check a file of reports, and quote it if prices are public; return keyed hashes of its ids, sorted."""
    found = read_reports(rules, rules_path, path)
    ids, costs = found.table.get_column("id"), found.table.get_column("cost").to_numpy()
    quotes = None if prices is None else write_quotes(ids, *prices.quote(costs), target, rules)
    seen = Seen(
        costs.size, len(found.excluded), found.below, found.above, found.lowest, sha256_of(path), quotes
    )
    return seen, sorted_hashes(ids, key)


def sorted_hashes(ids: pl.Series, key: int) -> Hashes:
    """Return the keyed hashes of ids, sorted."""
    return np.sort(ids.hash(key).to_numpy())


def reports_in(path: Path, rules: Rules, excluded: Collection[str]) -> tuple[pl.Series, FloatArray]:
    """Return ids in the one form and costs of a file that was checked before, without excluded people."""
    id_column, cost_column = rules.sellers.id_column, rules.sellers.cost_column
    table = read_table(path, [id_column, cost_column], [id_column], [cost_column])
    (ids, _), (costs, _) = normal_ids(table, id_column), numbers_of(table, cost_column)
    kept = ~ids.is_in(list(excluded))
    return ids.filter(kept), costs[kept.to_numpy()]


def ids_in(path: Path, rules: Rules, excluded: Collection[str]) -> pl.Series:
    """Return ids in the one form of a file that was checked before, without excluded people."""
    column = rules.sellers.id_column
    ids, _ = normal_ids(read_table(path, [column], [column]), column)
    return ids.filter(~ids.is_in(list(excluded)))


def split_reports(
    path: Path, mechanism: CrossPricedMechanism, salt: bytes, **same: Any
) -> tuple[NDArray[np.uint8], FloatArray]:
    """Return everybody's part of the sellers in a file of reports, and the histograms of the parts."""
    ids, costs = reports_in(path, **same)
    parts = split(ids.to_list(), salt)
    histograms = mechanism.histograms(costs, np.zeros(costs.size, dtype=np.int64), parts)
    return parts.astype(np.uint8), histograms


def write_quotes(
    ids: pl.Series, epsilons: FloatArray, amounts: IntArray, target: str, rules: Rules
) -> Written:
    """Write quotes; payments in minor units."""
    money = in_money(pl.Series(amounts), rules.money.minor_units)
    table = pl.DataFrame({rules.sellers.id_column: ids, "epsilon": epsilons, "payment": money})
    currency = pl.lit(rules.money.currency)
    return write_parquet(table.with_columns(payment_minor_units=amounts, currency=currency), target)


def write_parquet(quotes: pl.DataFrame, target: str) -> Written:
    """Write a table of quotes, and say what is in it."""
    quotes.write_parquet(target, compression="lz4", statistics=False)
    amounts = quotes.get_column("payment_minor_units")
    file = QuotesFile(target, int((amounts > 0).sum()), int(amounts.sum()), sha256_of(target))
    return Written(file, quotes.height, float(quotes.get_column("epsilon").sum()))


def within(quotes: Sequence[Written], room: int, largest: int) -> list[Written]:
    """Cut files of quotes off where escrow has no room left for the largest payment before a seller."""
    found = []
    for one in quotes:
        if one.file.payments > room - largest:
            table = pl.read_parquet(one.file.path)
            amounts = table.get_column("payment_minor_units").to_numpy()
            before = np.cumsum(amounts) - amounts
            one = write_parquet(table.filter(before <= room - largest), one.file.path)
        found.append(one)
        room -= one.file.payments
    return found


def records_in(path: Path, people: list[str], rules: Rules) -> Records:
    """Return the rows of these people, as a file campaign reads them."""
    key = bytes(32)
    return read_records(rules, path, key, None, sellers_by(person_digests(key, people)))


def encoded(records: Records, epsilons: FloatArray, encoder: Any, names: list[str]) -> tuple[Any, ...]:
    """Return encoded rows, outcomes, owners and epsilons of records."""
    rows = encoder.fit_transform({name: records.columns[name] for name in names})
    return rows, records.columns[OUTCOME], records.owners, epsilons


def quote_parts(
    place: Place, sources: Sequence[Path], parts: Parts, folder: Source, *, confirmed: bool,
    progress: StageProgress,
) -> Quoting:  # fmt: skip
    """Quote every seller of files of reports, whose paths are also the parts, into a new folder.

    Nothing is entered before all files are checked; the same reports have the same quotes again.
    """
    target = Path(folder).absolute()
    if not target.exists():  # else perhaps the quotes that these reports have already
        refuse_unwritable(target)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as aside:
        return _quoted(place, sources, parts, target, Path(aside), confirmed=confirmed, progress=progress)


def _quoted(
    place: Place, sources: Sequence[Path], parts: Parts, target: Path, aside: Path, *, confirmed: bool,
    progress: StageProgress,
) -> Quoting:  # fmt: skip
    rules = place.rules
    made = aside / "quotes"
    made.mkdir(mode=0o700)
    names = [str(made / part_name(k)) for k in range(len(sources))]
    same: dict[str, Any] = {"rules": rules, "excluded": excluded_ids(rules, place.path)}
    progress("Reading reports", 0.0)
    is_offline = rules.campaign.mechanism == OFFLINE
    prices = None if is_offline else Prices(rules, [online_schedules(rules)[0][0]])
    check = partial(look, rules=rules, rules_path=place.path.absolute(), prices=prices)
    looked = parts.map(check, names, key=secrets.randbits(60))
    seen: list[Seen] = looked.get(getitem, [0] * len(parts))
    people, lowest = sum(one.people for one in seen), min(one.lowest for one in seen)
    shared = looked.map(getitem, [1] * len(parts)).repeated()
    del looked
    key = secrets.randbits(60)  # under another key ids are not equal by chance again
    if shared and parts.map(lambda path: sorted_hashes(ids_in(path, **same), key)).repeated():
        raise MarketRefusal("invalid", f"{shared:,} ids stand in two rows of the reports.")
    refuse_too_many(rules, people)
    refuse = partial(refuse_first, rules, people, lowest, confirmed=confirmed)
    if not place.is_there:
        refuse()
    with place.open(make=True) as market:
        campaign = market.transact(lambda tx: open_campaign(tx, rules, refuse, CHANNEL))
        content = "".join(one.sha256 for one in seen).encode()
        digest = hashlib.blake2b(content, key=market.key, digest_size=32).hexdigest()
        with market.look() as c:
            free, known = free_by_pool(c, campaign.id)[ESCROW], files_of(c, campaign.id)
        if campaign.reports_digest is not None or campaign.state != "open":
            if campaign.reports_digest != digest:
                raise MarketRefusal("state", "This campaign was quoted for other reports, or is not open.")
            tables = zip(known, read_files(known), strict=True)
            quotes = [
                Written(one, table.height, float(table["epsilon"].to_numpy().sum())) for one, table in tables
            ]
            return _told(rules, quotes, seen, campaign.state, is_new=False)
        refuse_existing(target)
        progress("Deciding epsilons and payments", 0.4)
        quotes = [one.quotes for one in seen if one.quotes is not None]
        offer: dict[str, Any] = {}
        if not quotes:
            quotes, offer = _priced(binding_of(market.key, campaign), sources, parts, people, names, same)
        if campaign.mechanism != OFFLINE and not campaign.self_funded:
            quotes = within(quotes, free, campaign.largest or 0)
        if not sum(one.file.people for one in quotes):
            raise MarketRefusal("funds", "Nobody can be quoted: the budget is full.")
        files = [replace(one.file, path=str(target / Path(one.file.path).name)) for one in quotes]
        try:
            made.rename(target)
        except OSError as problem:
            raise FileProblem(f"cannot write {target}: {problem.strerror}.") from None
        try:
            market.run(enter_quotes_files, OWNER, campaign.id, files, canonical(offer), digest)
        except BaseException:
            with market.look() as c:
                is_entered = bool(files_of(c, campaign.id))
            if not is_entered:  # else nothing could write the same files again
                shutil.rmtree(target, ignore_errors=True)
            raise
        with market.look() as c:
            state = campaign_of(c, campaign.id).state
    return _told(rules, quotes, seen, state, is_new=True)


def refuse_rules(rules: Rules) -> None:
    """Refuse a lifetime limit, and what is done only in one place."""
    if rules.sellers.lifetime_epsilon is not None:
        raise MarketRefusal("limit", NO_ACCOUNTS)
    if rules.groups:
        raise Infeasible("A campaign over many files cannot have groups: leave them out.")
    for key, value in (("intervals", rules.training.intervals), ("model", rules.training.model)):
        if value is not None:
            raise Infeasible(f"A campaign over many files cannot use training.{key}: leave it out.")


def _told(rules: Rules, quotes: list[Written], seen: list[Seen], state: str, *, is_new: bool) -> Quoting:
    """Return what files of quotes have together."""
    sellers = sum(one.people for one in quotes)
    left = {FULL: sum(one.people for one in seen) - sellers, EXCLUDED: sum(one.excluded for one in seen)}
    return Quoting(
        rules, state, is_new, sellers, sum(one.file.people for one in quotes),
        sum(one.epsilon for one in quotes), sum(one.file.payments for one in quotes),
        {name: number for name, number in left.items() if number},
        sum(one.below for one in seen), sum(one.above for one in seen), len(quotes),
    )  # fmt: skip


def _priced(
    binding: Binding, sources: Sequence[Path], parts: Parts, people: int, names: list[str],
    same: dict[str, Any],
) -> tuple[list[Written], dict[str, Any]]:  # fmt: skip
    """Return files of quotes by prices that follow from all reports, and the offer."""
    rules: Rules = same["rules"]
    if is_cross_priced(rules, people):
        mechanism, public = cross_pricing_of(rules)
        sellers = sorted_digest(binding.nonce, _in_order(parts, people, same))
        salt = bound_salt(binding.rules, sellers)
        found = parts.map(split_reports, mechanism=mechanism, salt=salt, **same)
        prices = mechanism.price(sum(found.get(getitem, [1] * len(parts))), salt)
        offer = public | {**prices.to_dict(), "sellers": sellers, "nonce": binding.announced}
        own = Prices(rules, [schedule for (schedule,) in prices.schedules])

        def quote(found: tuple[NDArray[np.uint8], FloatArray], path: Path, target: str) -> Written:
            ids, costs = reports_in(path, **same)
            return write_quotes(ids, *own.quote(costs, found[0].astype(np.int64)), target, rules)

        return found.get(quote, sources, names), offer
    if people > _EXACT:
        raise Infeasible(
            f"expected objective.budget for more than {_EXACT:,} reports: it prices part by part."
        )
    reports = parts.get(reports_in, **same)
    costs = np.concatenate([own for _, own in reports])
    ids = pl.concat([own for own, _ in reports]).to_list()
    decision = decide_for(rules, binding)(Reports(ids, costs, [ESCROW] * people))
    ends = np.cumsum([own.size for _, own in reports])[:-1]
    decided = list(zip(np.split(decision.epsilons, ends), np.split(decision.amounts, ends), strict=True))

    def write(path: Path, decided: tuple[FloatArray, IntArray], target: str) -> Written:
        return write_quotes(ids_in(path, **same), *decided, target, rules)

    return parts.get(write, decided, names), decision.offer


def _in_order(parts: Parts, people: int, same: dict[str, Any]) -> Iterator[list[bytes]]:
    """Bring the ids of all files here in their order, so many at a time that memory holds them."""
    found: list[pl.Series] = parts.get(lambda path: ids_in(path, **same).sort().gather_every(_SPACING))
    starts = ["", *pl.concat(found).sort().gather_every(_AT_ONCE // _SPACING)[1:], None]

    def inside(path: Path, low: str, high: str | None) -> pl.Series:
        ids = ids_in(path, **same)
        return ids.filter((ids >= low) & (True if high is None else ids < high))

    for low, high in pairwise(starts):
        found = parts.get(inside, low=low, high=high)
        for some in pl.concat(found).sort().to_frame().iter_slices(_SPACING << 7):
            yield some.to_series().cast(pl.Binary).to_list()
