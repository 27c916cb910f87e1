"""Tables of a file campaign: reported costs, before anything is entered, and records, after the debit."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from dpmarket.arrays import BoolArray, FloatArray
from dpmarket.campaign.people import normal_id, person_digests
from dpmarket.campaign.rules.columns import Records, columns_by_type, fields_of, read_codes, records_of
from dpmarket.campaign.rules.rules_file import Rules, read_rules, to_distribution
from dpmarket.campaign.training import Sellers
from dpmarket.errors import FileProblem, InvalidInput, MarketRefusal
from dpmarket.files import (
    ColumnProblem,
    column_names,
    find,
    numbers_of,
    read_bytes,
    read_json,
    read_table,
    read_toml,
    refuse,
)

Source = str | os.PathLike[str]
_PLAIN = r"^[!-?A-~]([ -?A-~]*[!-?A-~])?$"  # printable ASCII without @ and without blanks at its ends
_OUTSIDE_SHARE = 0.05
_WAY_OUT = "Fit it to people who will not sell: otherwise misreporting pays."


@dataclass(frozen=True, eq=False)
class ReportsFile:
    """Who reported what, in the order of the file. Confidential.

    The table has the columns ``id`` (in the one form), ``written`` (as in the file), ``cost`` and, where
    there are groups, ``group``, without ``excluded`` people, who must not sell; ``below`` and ``above`` the
    distribution lie so many costs.
    """

    table: pl.DataFrame
    excluded: list[str]
    below: int
    above: int

    @property
    def lowest(self) -> float:
        """The lowest cost; infinite where all people are excluded."""
        return float(self.table.get_column("cost").to_numpy().min(initial=np.inf))

    @property
    def groups(self) -> list[str] | None:
        """Everybody's group, where there are some."""
        return self.table.get_column("group").to_list() if "group" in self.table.columns else None


def normal_ids(table: pl.DataFrame, column: str) -> tuple[pl.Series, list[ColumnProblem]]:
    """Return ids in the one form in which they are compared, empty where wrong, and what is wrong."""
    ids = table.get_column(column).fill_null("")
    plain = ids.str.contains(_PLAIN).to_numpy()
    empty: BoolArray = (ids == "").to_numpy()
    wrong = np.zeros(len(ids), dtype=bool)
    if plain.all():
        return ids, []
    found = ids.to_list()
    for place in np.flatnonzero(~plain & ~empty).tolist():
        try:
            found[place] = normal_id(found[place])
        except MarketRefusal:
            found[place], wrong[place] = "", True
    problems = find(column, "no id", empty)
    problems += find(column, "an id with blanks around it, or with a character that nobody sees", wrong)
    return pl.Series(column, found, dtype=pl.String), problems


def people_in_file(source: Source, column: str) -> pl.Series:
    """Return the people of a file, in the order of their first rows; other problems are reported later."""
    table = read_table(source, [column], [column])
    ids, problems = normal_ids(table, column)
    refuse(table, source, problems)
    return ids.unique(maintain_order=True)


def repeated_ids(ids: pl.Series, column: str, rows_each: int = 1) -> list[ColumnProblem]:
    """Find ids that stand in more rows than they may."""
    hashes = np.sort(ids.hash().to_numpy())
    if rows_each == 1 and not (hashes[1:] == hashes[:-1]).any():  # no two hashes are equal, so no two ids
        return []
    count = ids.to_frame("id").select(pl.int_range(1, pl.len() + 1).over("id")).to_series().to_numpy()
    words = "an id that an earlier row has already"
    if rows_each > 1:
        words = f"a seller's row beyond rows_per_person = {rows_each}"
    return find(column, words, (count > rows_each) & (ids != "").to_numpy())


def read_reports(rules: Rules, rules_path: Path, source: Source) -> ReportsFile:
    """Read a file of reports, or refuse it with all that is wrong, by lines and columns, never by values."""
    id_column, cost_column = rules.sellers.id_column, rules.sellers.cost_column
    group_column = [rules.sellers.group_column] if rules.groups else []
    texts = [id_column, *group_column]
    written = read_table(source, [*texts, cost_column], texts, [cost_column])
    costs, problems = numbers_of(written, cost_column)
    problems += find(cost_column, "a cost below 0", costs < 0.0)
    for column in group_column:
        unknown = ~written.get_column(column).fill_null("").is_in(list(rules.groups)).to_numpy()
        problems += find(column, f"no group of the rules ({', '.join(rules.groups)})", unknown)
    ids, more = normal_ids(written, id_column)
    refuse(written, source, [*problems, *more, *repeated_ids(ids, id_column)])
    if len(ids) == 0:
        raise FileProblem(f"cannot use {source}: nobody reports in it.")
    table = pl.DataFrame({"id": ids, "written": written.get_column(id_column), "cost": costs})
    table = table.with_columns(written.get_column(column).alias("group") for column in group_column)
    refuse_own_reports(rules, rules_path, table)
    below, above = _outside(rules, table)
    if below + above > max(_OUTSIDE_SHARE * costs.size, 1.0) and costs.size >= 10:
        raise FileProblem(
            f"cannot use {source}: {below:,} of {costs.size:,} costs lie below and {above:,} above "
            f"{_ends(rules)}. Are they in another unit? A cost is money per unit of epsilon. Otherwise "
            "announce a wider distribution and ask again. Nothing was entered."
        )
    banned = table.get_column("id").is_in(list(excluded_ids(rules, rules_path)))
    out = table.filter(banned).get_column("written").to_list()
    return ReportsFile(table.filter(~banned), out, below, above)


def reports_for_verifier(source: Source, rules_path: Path | None = None) -> bytes:
    """Return reports as the verifier takes them: commas, points, and ids in the one form.

    The rules file says what is in which column; without one the ids come first, and then the costs.
    """
    if rules_path is not None:
        table = read_reports(read_rules(rules_path), rules_path, source).table
        return table.select("id", "cost").write_csv().encode()
    data = read_bytes(source)  # once: it may be a stream
    id_column, cost_column, *_ = (*column_names(data), "cost", "cost")
    written = read_table(data, [id_column, cost_column], [id_column], [cost_column])
    (ids, wrong), (costs, problems) = normal_ids(written, id_column), numbers_of(written, cost_column)
    refuse(written, source, [*problems, *wrong, *repeated_ids(ids, id_column)])
    return pl.DataFrame({"id": ids, "cost": costs}).write_csv().encode()


def _outside(rules: Rules, table: pl.DataFrame) -> tuple[int, int]:
    """Return how many costs lie below and above the distribution, within groups where there are some."""
    everybody, costs = rules.costs.distribution, table.get_column("cost").to_numpy()
    parts = [(to_distribution(everybody), np.ones(costs.size, dtype=bool))]
    if rules.groups:
        members = table.get_column("group")
        parts = [
            (to_distribution(own.distribution or everybody), (members == name).to_numpy())
            for name, own in rules.groups.items()
        ]
    below = sum(int((costs[of] < dist.support[0]).sum()) for dist, of in parts)
    return below, sum(int((costs[of] > dist.support[1]).sum()) for dist, of in parts)


def _ends(rules: Rules) -> str:
    if rules.groups:
        return "the distributions of their groups"
    low, high = to_distribution(rules.costs.distribution).support
    return f"costs.distribution ({low:g} to {high:g})"


def excluded_ids(rules: Rules, rules_path: Path) -> set[str]:
    """Return the ids of people who must not sell, in the one form; a list that matches nobody is refused."""
    if rules.sellers.excluded is None:
        return set()
    source, column = rules_path.parent / rules.sellers.excluded, rules.sellers.id_column
    table = read_table(source, [column], [column])
    ids, problems = normal_ids(table, column)
    refuse(table, source, [one for one in problems if one.words != "no id"])
    found = {one for one in ids.to_list() if one}
    if not found:
        raise FileProblem(f"cannot use {source}: it names nobody.")
    return found


def refuse_own_reports(rules: Rules, rules_path: Path, reports: pl.DataFrame) -> None:
    """Refuse reports to which the cost distribution was fitted, where that can be known.

    If the distribution follows from the sellers' own reports, each of them moves the rules by what they name,
    and misreporting pays. It can be known where it is the empirical one of these costs, and where the file
    that ``dpmarket costs fit`` wrote names a pilot that lies beside it. The message has no id and no cost.
    """
    costs = reports.get_column("cost").to_numpy()
    if _is_made_of(rules, costs):
        raise FileProblem(f"the cost distribution was fitted to these very reports. {_WAY_OUT}")
    pilot, column = pilot_of(rules_path)
    if pilot is None:
        return
    ids = rules.sellers.id_column
    people = read_table(pilot, [column, ids], [ids], [column], if_there=[ids])
    own, _ = numbers_of(people, column)
    if own.size == costs.size and np.array_equal(np.sort(own), np.sort(costs)):
        raise FileProblem(f"the cost distribution was fitted to the same costs. {_WAY_OUT}")
    if ids in people.columns:
        both = set(normal_ids(people, ids)[0].to_list()) & set(reports.get_column("id").to_list())
        if both - {""}:
            raise FileProblem(
                f"{len(both - {''})} of these sellers are people of the pilot that the cost distribution was "
                f"fitted to. {_WAY_OUT}"
            )


def pilot_of(rules_path: Path) -> tuple[Path | None, str]:
    """Return the pilot that the distribution's file names, if it lies beside it, and its column of costs."""
    name = read_toml(rules_path).get("costs", {}).get("distribution")
    if not (isinstance(name, str) and name.endswith(".json")):
        return None, ""
    fitted = rules_path.parent / name
    content = read_json(fitted)
    pilot = content.get("pilot") if isinstance(content, dict) else None
    if not isinstance(pilot, dict) or not all(isinstance(pilot.get(key), str) for key in ("file", "column")):
        return None, ""
    beside = fitted.parent / Path(pilot["file"]).name
    return (beside if beside.is_file() else None), pilot["column"]


def _is_made_of(rules: Rules, costs: FloatArray) -> bool:
    """Whether the distribution is the empirical one of these costs."""
    from dpmarket.costs import Empirical

    dist = to_distribution(rules.costs.distribution)
    if dist.to_dict()["kind"] != "mixture":
        return False  # an empirical distribution is always one
    try:
        return bool(Empirical(costs) == dist)
    except InvalidInput:
        return False


def read_records(
    rules: Rules, source: Source, key: bytes, quoted: set[bytes] | None, sellers: Sellers
) -> Records:
    """Return the rows of these sellers in a table, or refuse the file with all that is wrong with it.

    ``key`` is the market's key of digests, and ``quoted`` has the digests of everybody who was quoted: other
    people's records are refused, by line and column, never by value.
    """
    column, fields = rules.sellers.id_column, fields_of(rules)
    texts, numbers = columns_by_type(fields)
    table = read_table(source, [column, *texts, *numbers], [column, *texts], numbers)
    ids, problems = normal_ids(table, column)
    problems += repeated_ids(ids, column, rules.sellers.rows_per_person)
    digests = digests_of(key, ids)
    order = {digest: place for place, digest in enumerate(sellers.get_column("digest"))}
    owners = np.array([order.get(digest, -1) for digest in digests], dtype=np.int64)
    quoted = set(digests) if quoted is None else quoted
    strangers = np.array([bool(one) and one not in quoted for one in digests], dtype=bool)
    problems += find(column, "a seller without a quote", strangers)
    rows = np.flatnonzero(owners >= 0)
    codes, wrong = read_codes(fields, table, rows)
    refuse(table, source, problems + wrong)
    absent = len(order) - np.unique(owners[rows]).size
    if absent:
        raise absent_rows(str(source), absent)
    return records_of(fields, codes, owners[rows])


def absent_rows(where: str, sellers: int) -> FileProblem:
    """Return the refusal of records without those of some sellers."""
    return FileProblem(
        f"cannot use {where}: there is no row for {sellers:,} sellers who were quoted. Add their rows, or "
        "take them out: dpmarket withdraw --absent-from."
    )


def digests_of(key: bytes, ids: pl.Series) -> list[bytes]:
    """Return the digests of ids in the one form; of empty ones nothing."""
    found = iter(person_digests(key, ids.filter(ids != "").to_list()))
    return [next(found) if there else b"" for there in (ids != "").to_list()]
