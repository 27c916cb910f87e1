"""Campaigns over many files: quotes in Parquet files beside the campaign, and training by person.

One pass reads all reports, checks them and sums up what prices need; one writes quotes. Reports and records
never leave the workers, but for the ids of a training and, without a budget, the costs of at most a million
reports, which the exact mechanism decides about in one place.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from dpmarket.arrays import FloatArray, IntArray
from dpmarket.campaign.acts import OWNER
from dpmarket.campaign.certificate import binding_of
from dpmarket.campaign.database import Market
from dpmarket.campaign.file_campaign import Training, raised_l2, refuse_untrainable
from dpmarket.campaign.file_quotes import opened, refuse_first
from dpmarket.campaign.file_records import FileRecords
from dpmarket.campaign.file_reports import ReportsFile, normal_ids, read_reports
from dpmarket.campaign.log import canonical
from dpmarket.campaign.money import ESCROW, free_by_pool
from dpmarket.campaign.opening import by_schedules, decide_for
from dpmarket.campaign.partitions import (
    CHANNEL,
    QuotesFile,
    changed_file,
    enter_quotes_files,
    files_of,
    has_limits,
    refuse_channel,
    refuse_limit,
    sha256_of,
)
from dpmarket.campaign.payouts import in_money
from dpmarket.campaign.people import person_digests
from dpmarket.campaign.place import Source, place_of, refuse_changed
from dpmarket.campaign.quoting import Reports, decided_of
from dpmarket.campaign.release import release_for
from dpmarket.campaign.rules.columns import OUTCOME, Records
from dpmarket.campaign.rules.decision import (
    bound_salt,
    cross_pricing_of,
    is_cross_priced,
    refuse_too_many,
    sellers_digest,
)
from dpmarket.campaign.rules.pricing import OFFLINE, online_schedules, terms_of
from dpmarket.campaign.rules.released import released_from_bytes
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.campaign.training import Result, Sellers, released, train
from dpmarket.campaign.transaction import Campaign, campaign_of
from dpmarket.distributed.cluster import Parts, connected, repeated_in, shared_ids, slices_of
from dpmarket.distributed.fitting import train_parts
from dpmarket.distributed.quoting import histograms_of, quote_parts
from dpmarket.distributed.repartition import many_files, part_name
from dpmarket.distributed.samples import PartedColumn
from dpmarket.distributed.sums import getattr_of
from dpmarket.errors import FileProblem, Infeasible, MarketRefusal
from dpmarket.files import read_table, refuse, refuse_existing, refuse_unwritable, write_bytes
from dpmarket.learning.people import Holding
from dpmarket.mechanisms.outcome import whole_units
from dpmarket.mechanisms.price_schedule import PriceSchedule
from dpmarket.progress import StageProgress, silent

_EXACT = 1_000_000
"""Without a budget an offline campaign is decided about at once: at most so many reports."""
_LARGEST = 2**60
Read = Callable[[Path], ReportsFile]


class Seen(NamedTuple):
    """What the first pass learns of a file of reports.

    ``total`` is what a public schedule pays for it, in minor units; ``is_plain`` says that ids and costs
    are used as they stand in the file.
    """

    people: int
    excluded: int
    below: int
    above: int
    lowest: float
    sha256: str
    total: int
    is_plain: bool


class Sold(NamedTuple):
    """What became of one file: the file of quotes, how many were quoted, and their epsilons together."""

    file: QuotesFile
    quoted: int
    epsilon: float


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


def quote_files(
    rules_path: Source, pattern: Source, folder: Source, where: str, *, confirmed: bool = False,
    progress: StageProgress = silent, database: str | None = None,
) -> QuotedFiles:  # fmt: skip
    """Quote every seller of many Parquet files, and write a file of quotes for each into a new folder.

    Parameters
    ----------
    rules_path, confirmed, database
        As for :func:`~dpmarket.campaign.file_quotes.quote_file`.
    pattern
        The files of reports, such as ``reports/*.parquet``, which the workers can read.
    folder
        Where quotes go; it stays the campaign's. The same reports give the same files again.
    where
        A scheduler's address, or ``"local"``.

    Raises
    ------
    FileProblem
        Files that cannot be used.
    MarketRefusal
        A lifetime limit, an id in two rows, other reports than before, or a full budget.
    """
    place, sources, target = place_of(rules_path, database), many_files(pattern), Path(folder).absolute()
    rules, read = place.rules, partial(read_reports, place.rules, place.path.absolute())
    refuse_limit(is_there=rules.sellers.lifetime_epsilon is not None)
    _refuse_one_machine(rules)
    with connected(where) as client:
        parts = Parts(client, list(sources))
        progress("Reading reports", 0.0)
        look = partial(_look, read=read, rules=rules, price=_public_price(rules))
        looked = parts.map(look, key=secrets.randbits(60), count=len(sources))
        seen: list[Seen] = looked.get(getitem, [0] * len(sources))
        people, lowest = sum(one.people for one in seen), min(one.lowest for one in seen)
        shared = repeated_in(looked.map(getitem, [1] * len(sources)))
        del looked
        if shared and shared_ids(parts, partial(_ids, read=read)):  # no collision of hashes
            raise MarketRefusal("invalid", f"{shared:,} ids stand in two rows of the reports.")
        refuse_too_many(rules, people)
        refuse = partial(refuse_first, rules, people, lowest, confirmed=confirmed)
        if not place.is_there:
            refuse()
        with place.open(make=True) as market:
            refuse_limit(is_there=has_limits(market))
            campaign = opened(market, rules, refuse, channel=CHANNEL)
            assert campaign is not None
            with market.look() as c:
                free = free_by_pool(c, campaign.id)[ESCROW]
            digest = _digest(market.key, seen)
            if campaign.reports_digest is not None or campaign.state != "open":
                return _known(market, campaign, digest, seen)
            refuse_existing(target)
            progress("Deciding epsilons and payments", 0.4)
            readers = [partial(_plain, rules=rules) if one.is_plain else read for one in seen]
            files = Parts(client, list(zip(sources, readers, strict=True)))
            price, each, offer = _priced(market, campaign, rules, files, people)
            before = np.concatenate([[0], np.cumsum([one.total for one in seen])[:-1]])
            limited = campaign.mechanism != OFFLINE and not campaign.self_funded
            rooms = ((free if limited else _LARGEST) - before).tolist()
            progress("Writing quotes", 0.6)
            aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                write = partial(_write, price=price, rules=rules, largest=campaign.largest or 0)
                names = [str(aside / part_name(k)) for k in range(len(seen))]
                sold: list[Sold] = files.get(write, each, rooms, names)
                quotes = [replace(one.file, path=str(target / Path(one.file.path).name)) for one in sold]
                if not sum(one.people for one in quotes):
                    raise MarketRefusal("funds", "Nobody can be quoted: the budget is full.")
                os.rename(aside, target)
                market.run(enter_quotes_files, OWNER, campaign.id, quotes, canonical(offer), digest)
            except BaseException:
                for made in (aside, target):
                    shutil.rmtree(made, ignore_errors=True)
                raise
            with market.look() as c:
                state = campaign_of(c, campaign.id).state
    return _told(quotes, [(one.quoted, one.epsilon) for one in sold], seen, state, is_new=True)


def _refuse_one_machine(rules: Rules) -> None:
    """Refuse what is done only in one place, before anybody is quoted."""
    if rules.groups:
        raise Infeasible("A campaign over many files cannot have groups: leave them out.")
    for key, value in (("intervals", rules.training.intervals), ("model", rules.training.model)):
        if value is not None:
            raise Infeasible(f"A campaign over many files cannot use training.{key}: leave it out.")


def _digest(key: bytes, seen: list[Seen]) -> str:
    """Return the keyed digest of the files of reports, in their order."""
    content = "".join(one.sha256 for one in seen).encode()
    return hashlib.blake2b(content, key=key, digest_size=32).hexdigest()


def _told(
    files: list[QuotesFile], sold: list[tuple[int, float]], seen: list[Seen], state: str, *, is_new: bool
) -> QuotedFiles:
    quoted = sum(number for number, _ in sold)
    left = {"full": sum(one.people for one in seen) - quoted, "excluded": sum(one.excluded for one in seen)}
    return QuotedFiles(
        quoted, sum(one.people for one in files), sum(epsilon for _, epsilon in sold),
        sum(one.payments for one in files), len(files), is_new, state,
        {name: number for name, number in left.items() if number},
        sum(one.below for one in seen), sum(one.above for one in seen),
    )  # fmt: skip


def _known(market: Market, campaign: Campaign, digest: str, seen: list[Seen]) -> QuotedFiles:
    """Return the quotes that these reports had before; refuse others."""
    if campaign.reports_digest != digest:
        raise MarketRefusal("state", "This campaign was quoted for other reports, or is not open.")
    with market.look() as c:
        files = files_of(c, campaign.id)
    wrong = changed_file(files)
    if wrong is not None:
        raise FileProblem(f"{wrong} is not there as it was written: put back the folder of quotes.")
    sums = [
        pl.scan_parquet(one.path).select(pl.len(), pl.col("epsilon").sum()).collect().row(0) for one in files
    ]
    return _told(files, sums, seen, campaign.state, is_new=False)


def _look(
    path: Path, *, read: Read, rules: Rules, price: Price | None, key: int, count: int
) -> tuple[Seen, tuple[Any, ...]]:
    """Check a file of reports; return what was learnt of it, and the hashes of its ids."""
    found = read(path)
    ids, costs = found.table.get_column("id"), found.table.get_column("cost").to_numpy()
    total = 0 if price is None else int(price([], costs, None)[1].sum())
    kinds = pl.read_parquet_schema(path)
    is_plain = not found.excluded and ids.equals(found.table.get_column("written"))
    is_plain &= kinds[rules.sellers.id_column] == pl.String and kinds[rules.sellers.cost_column] == pl.Float64
    lowest = float(costs.min(initial=np.inf))
    seen = Seen(
        costs.size, len(found.excluded), found.below, found.above, lowest, sha256_of(path), total, is_plain
    )
    return seen, slices_of(ids, key, count)


def _ids(path: Path, read: Read) -> pl.Series:
    return read(path).table.get_column("id")


def _plain(path: Path, rules: Rules) -> ReportsFile:
    """Return reports that were checked before."""
    columns = {"id": rules.sellers.id_column, "cost": rules.sellers.cost_column}
    table = pl.read_parquet(path, columns=list(columns.values()))
    return ReportsFile(table.select(**{name: pl.col(own) for name, own in columns.items()}), [], 0, 0)


def _columns(file: tuple[Path, Read]) -> tuple[pl.Series, FloatArray]:
    path, read = file
    table = read(path).table
    return table.get_column("id"), table.get_column("cost").to_numpy()


Price = Callable[[Any, FloatArray, Any], tuple[FloatArray, IntArray]]
"""Returns epsilons, and payments in minor units, for ids, costs, and what was decided about a part before."""


def _public_price(rules: Rules) -> Price | None:
    """Return how everybody is quoted by the rules alone; None where reports decide."""
    if rules.campaign.mechanism == OFFLINE:
        return None
    return partial(_by_schedule, schedule=online_schedules(rules)[0][0], units=rules.money.minor_units)


def _priced(
    market: Market, campaign: Campaign, rules: Rules, parts: Parts, people: int
) -> tuple[Price, list[Any], dict[str, Any]]:
    """Return how a part is quoted, what was decided about each already, and the public offer."""
    units, none = rules.money.minor_units, [None] * len(parts.futures)
    public_price = _public_price(rules)
    if public_price is not None:
        return public_price, none, {}
    binding = binding_of(market.key, campaign)
    if is_cross_priced(rules, people):
        mechanism, public = cross_pricing_of(rules)
        ids = [one for part, _ in parts.get(_columns) for one in part]
        sellers = sellers_digest(binding.nonce, ids)
        salt = bound_salt(binding.rules, sellers)
        prices = mechanism.price(sum(parts.get(_histograms, mechanism=mechanism, salt=salt)), salt)
        offer = public | {**prices.to_dict(), "sellers": sellers, "nonce": binding.announced}
        schedules = [schedule for (schedule,) in prices.schedules]
        return partial(_by_parts, schedules=schedules, salt=salt, rules=rules), none, offer
    if people > _EXACT:
        raise Infeasible(
            f"expected objective.budget for more than {_EXACT:,} reports: it prices part by part."
        )
    found = parts.get(_columns)
    costs, names = np.concatenate([one for _, one in found]), [one for ids, _ in found for one in ids]
    decision = decide_for(rules, binding)(Reports([], costs, [ESCROW] * costs.size, names))
    ends = np.cumsum([one.size for _, one in found])[:-1]
    amounts = decision.whole(units)
    each = list(zip(np.split(decision.epsilons, ends), np.split(amounts, ends), strict=True))
    return _decided, each, decision.offer


def _histograms(file: tuple[Path, Read], mechanism: Any, salt: bytes) -> FloatArray:
    ids, costs = _columns(file)
    return histograms_of(mechanism, salt, costs, ids)


def _decided(ids: Any, costs: FloatArray, own: Any) -> tuple[FloatArray, IntArray]:
    return own  # type: ignore[no-any-return]


def _by_schedule(
    ids: Any, costs: FloatArray, own: Any, schedule: PriceSchedule, units: int
) -> tuple[FloatArray, IntArray]:
    decision = by_schedules({ESCROW: schedule}, units)(Reports([], costs, [ESCROW] * costs.size))
    return decision.epsilons, decision.whole(units)


def _by_parts(
    ids: Any, costs: FloatArray, own: Any, schedules: list[PriceSchedule], salt: bytes, rules: Rules
) -> tuple[FloatArray, IntArray]:
    epsilons, payments = quote_parts(schedules, salt, costs, ids)
    losses = terms_of(rules).epsilon_cost.cost_of_epsilon(epsilons)
    amounts = whole_units(payments, rules.money.minor_units, costs, losses)
    return epsilons, np.where(epsilons > 0.0, np.maximum(amounts, 1), 0)


def _write(
    file: tuple[Path, Read], own: Any, room: int, target: str, *, price: Price, rules: Rules, largest: int
) -> Sold:
    """Write the quotes of a file, as far as escrow has room for the largest payment before each."""
    ids, costs = _columns(file)
    epsilons, amounts = price(ids, costs, own)
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
    ).with_columns(currency=pl.lit(rules.money.currency)).write_parquet(target)
    bought = int((amounts > 0).sum())
    return Sold(
        QuotesFile(target, bought, int(amounts.sum()), sha256_of(target)), count, float(epsilons.sum())
    )


def train_files(
    rules_path: Source, pattern: Source, output: Source, where: str, *, overwrite: bool = False,
    progress: StageProgress = silent, database: str | None = None,
) -> Training:  # fmt: skip
    """Spend a campaign over many files once, on records that stay on the workers.

    Parameters
    ----------
    rules_path, output, overwrite, database
        As for :func:`~dpmarket.campaign.file_campaign.train_file`.
    pattern
        The files of records, all rows of a person in one of them: :func:`~dpmarket.distributed.repartition`.
    where
        A scheduler's address, or ``"local"``.

    Raises
    ------
    FileProblem
        Files that cannot be used.
    MarketRefusal
        As by ``train_file``.
    """
    place, sources = place_of(rules_path, database), many_files(pattern)
    refuse_unwritable(output)
    if not overwrite:
        refuse_existing(output)
    with place.campaign() as (market, found), connected(where) as client:
        refuse_changed(found, place.rules)
        refuse_channel(found, CHANNEL)
        known = released(market, found.id)
        is_new = known is None
        with market.look() as c:
            quoted = decided_of(c, found.id)
        source = FarFiles(place.rules, Parts(client, list(sources)), set(quoted.get_column("name")))
        if known is None:
            refuse_untrainable(market, found, place.rules)
            progress("Training", 0.2)
            known = train(market, found.id, source, source.release(), OWNER)
    write_bytes(output, known, overwrite=overwrite)
    made = released_from_bytes(known)
    bought = quoted.filter(pl.col("payment") > 0)
    left = bought.get_column("state").is_in(["withdrawn", "lapsed"])
    total = float(bought.filter(~left).get_column("epsilon").sum())
    return Training(made, is_new, total, int(left.sum()), source.clipped, raised_l2(place.rules, made))


class FarFiles:
    """A :class:`~dpmarket.campaign.training.RecordSource` of many Parquet files, read by workers."""

    def __init__(self, rules: Rules, paths: Parts, quoted: set[str]) -> None:
        self._rules, self._paths, self._quoted = rules, paths, quoted
        self.clipped: dict[str, int] = {}
        self.columns: dict[str, PartedColumn] = {}

    def people(self) -> set[bytes] | None:
        """Return None: nothing of the files is read before the debit."""
        return None

    def destroy(self) -> None:
        """Do nothing: the files' owner has the records anyway."""

    def read(self, sellers: Sellers) -> FarFiles:
        """Let workers read the rows of these sellers, or refuse the files."""
        column = self._rules.sellers.id_column
        listed: list[pl.Series] = self._paths.get(_people_in, column=column)
        together = pl.concat(listed)
        strangers = together.len() - together.is_in(list(self._quoted)).sum()
        if strangers:
            raise FileProblem(
                f"cannot use these files: they have rows of {strangers:,} people without a quote."
            )
        if together.n_unique() < together.len():
            raise FileProblem(
                "some people have rows in two files: 'dpmarket repartition' puts them into one."
            )
        places = dict(zip(sellers.names, range(len(sellers.names)), strict=True))
        own = [[one for one in part.to_list() if one in places] for part in listed]
        self._order = np.array([places[one] for part in own for one in part], dtype=np.int64)
        absent = len(places) - self._order.size
        if absent:
            raise FileProblem(
                f"cannot use these files: they have no row for {absent:,} sellers who were quoted. Add their "
                "rows, or take them out: dpmarket withdraw --absent-from."
            )
        self._records = self._paths.map(_records_in, own, rules=self._rules)
        self._sizes = [len(part) for part in own]
        for clipped in self._records.get(getattr_of, name="clipped"):
            for name, number in clipped.items():
                self.clipped[name] = self.clipped.get(name, 0) + number
        self.columns = {
            name: PartedColumn(self._records.map(_column, name=name), self._sizes)
            for name in self._rules.statistics
        }
        return self

    def train(self, estimator: Any, encoder: Any, epsilons: FloatArray) -> None:
        """Fit an estimator on the encoded records."""
        own = np.split(epsilons, np.cumsum(self._sizes)[:-1])
        names = list(self._rules.features)
        tables = self._records.map(_encoded, own, encoder=encoder, names=names)
        train_parts(estimator, tables, epsilons, Holding(None, epsilons.size, None), None)

    def release(self) -> Any:
        """Return the release of these rules, which takes epsilons in the order of the files' people."""
        release = release_for(self._rules)

        def ordered(records: FarFiles, sellers: Sellers, before_noise: Callable[[], None]) -> Result:
            own = replace(sellers, epsilons=sellers.epsilons[records._order])
            result = release(records, own, before_noise)
            spent, weights = np.empty(own.epsilons.size), np.empty(own.epsilons.size)
            spent[records._order], weights[records._order] = result.epsilons, result.weights
            return Result(result.document, spent, weights)

        return ordered


def _people_in(path: Path, column: str) -> pl.Series:
    """Return the people of a file, in the order of their first rows; problems are reported later."""
    table = read_table(path, [column], [column])
    ids, problems = normal_ids(table, column)
    refuse(table, path, problems)
    return ids.unique(maintain_order=True)


def _records_in(path: Path, people: list[str], rules: Rules) -> Records:
    """Return the rows of these people, as a file campaign reads them."""
    key, number = bytes(32), len(people)
    nothing: list[Any] = [None] * number
    own = Sellers([0] * number, person_digests(key, people), nothing, np.ones(number), nothing, nothing)
    return FileRecords(rules, path, key, None).read(own)


def _column(records: Records, name: str) -> tuple[Any, IntArray]:
    return records.columns[name], records.owners


def _encoded(records: Records, epsilons: FloatArray, encoder: Any, names: list[str]) -> tuple[Any, ...]:
    rows = encoder.fit_transform({name: records.columns[name] for name in names})
    return rows, records.columns[OUTCOME], records.owners, epsilons
