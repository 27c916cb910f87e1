"""Read tables as people have them (CSV of any kind, Excel, Parquet), and write CSV and Parquet.

Separators, decimal commas and byte-order marks are recognised; :func:`~dpmarket.progress.tell_reading` says
so.
"""

import contextlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import PRIVATE, atomic_path, is_standard_stream, read_bytes, write_bytes
from dpmarket.files.dialect import SEPARATORS, is_of_numbers, separator_of, with_points
from dpmarket.files.formulas import as_meant, csv_text, write_csv
from dpmarket.files.untrusted import (
    csv_problem,
    most_unpacked,
    refuse_unreadable_csv,
    refuse_unreadable_parquet,
)
from dpmarket.progress import tell_reading

_HEAD = 1 << 16  # bytes
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError)
_LARGEST_WHOLE = 10**15  # beyond it floats are no ids
_READ = {".csv": ".csv", ".tsv": ".csv", ".txt": ".csv", ".xlsx": ".xlsx", ".parquet": ".parquet"}
_STARTS = {b"PAR1": ".parquet", b"PK\x03\x04": ".xlsx"}
_UTF_16, _SEP = (b"\xff\xfe", b"\xfe\xff"), (b"sep=", b"\xef\xbb\xbfsep=")


def read_table(
    source: str | os.PathLike[str] | bytes,
    columns: Sequence[str] | None = None,
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
    if_there: Sequence[str] = (),
) -> pl.DataFrame:
    """Read a table, all columns or the named ones, in this order.

    ``source`` is a .csv (.tsv, .txt), .xlsx or .parquet file; ``-``, and content in memory, is what its first
    bytes say. Of the named columns ``if_there`` may be missing. Columns of ``texts`` are so whatever they
    hold (``007`` stays ``007``), in CSV all but ``numbers``. Of those, cells that are no numbers, or have
    what may be a separator of thousands, are left for :func:`~dpmarket.files.columns.numbers_of` to find.

    A refusal never contains a value, nor a column's name that was not asked for: without a header row, that
    would be a value.
    """
    file = _opened(source)
    with _refusing(file):
        written = _header(file)
        there = [one.strip() for one in written]
        if columns is None and 2 * there.count("") > len(there):
            words = "most of its columns have no name; the header must be its first row."
            raise FileProblem(f"cannot read {file.name}: {words}")
        named = [one for one in there if one] if columns is None else columns
        wanted = [one for one in named if one in there or one not in if_there]
        _refuse_missing(wanted, there, file.name)
        texts, numbers = ([one for one in names if one in wanted] for names in (texts, numbers))
        if file.kind == ".csv":
            table = _read_csv(file, {written[there.index(one)]: one for one in wanted}, numbers)
        else:
            table = pl.read_parquet(io.BytesIO(file.data), columns=wanted)
    if file.kind == ".csv":
        table = _without_blank_end(table)
    if table.height == 0:
        raise FileProblem(f"cannot use {file.name}: it has a header but no rows.")
    table = table.with_columns([_as_text(table, text, file.name) for text in texts])
    if file.kind == ".parquet":
        _refuse_endless_texts(table, file)
    else:
        if columns is None:
            numbers = [one.name for one in table if one.dtype == pl.String and is_of_numbers(one)]
        table = _as_meant(table, numbers, file)
    return table.select(wanted)


def column_names(source: str | os.PathLike[str] | bytes) -> list[str]:
    """Return the names of a file's columns, in order."""
    file = _opened(source)
    with _refusing(file):
        return [one.strip() for one in _header(file)]


def write_table(target: str | os.PathLike[str], table: pl.DataFrame, *, overwrite: bool = True) -> None:
    """Write a table to a .csv or .parquet file for its owner only, atomically; ``-`` is standard output."""
    with writing_table(target, table, overwrite=overwrite):
        pass


@contextlib.contextmanager
def writing_table(
    target: str | os.PathLike[str], table: pl.DataFrame, *, overwrite: bool = True
) -> Iterator[None]:
    """Write a table to a temporary file, which takes the target's place when a block has succeeded."""
    if is_standard_stream(target):
        yield
        write_bytes(target, csv_text(table))
        return
    kind = table_kind(target)
    with atomic_path(target, overwrite=overwrite, mode=PRIVATE) as temporary:
        with temporary.open("wb") as file:
            if kind == ".csv":
                write_csv(file, table)
            else:  # the lowest level takes half the time of the usual one, and files are about as small
                table.write_parquet(file, compression_level=1, statistics=False)
        yield


def table_kind(path: str | os.PathLike[str]) -> str:
    """Return ``.csv`` or ``.parquet``, whichever a path to write ends in; refuses other endings."""
    return _kind(path, {".csv": ".csv", ".parquet": ".parquet"})


def _kind(path: str | os.PathLike[str], kinds: Mapping[str, str]) -> str:
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise FileProblem(f"expected a file's name in UTF-8, got {Path(path).name!r}.") from None
    ending = Path(path).suffix.lower()
    if ending not in kinds:
        *others, last = dict.fromkeys(kinds.values())
        expected = f"{', '.join(others)} or {last}"
        raise FileProblem(f"expected a file ending in {expected}, got {Path(path).name!r}.")
    return kinds[ending]


@dataclass(frozen=True)
class _Opened:
    """A file's content, what it is, what messages call it, and of CSV what separates its columns."""

    data: bytes
    kind: str
    name: str
    mark: str = ","


def _opened(source: str | os.PathLike[str] | bytes) -> _Opened:
    """Return what is to be read; refuse what is no table, or would become too large."""
    kind, name = "", "the table"
    if isinstance(source, bytes):
        data = source
    else:
        name = "the standard input" if is_standard_stream(source) else str(source)
        if Path(source).is_file() and not is_standard_stream(source):
            kind = _kind(source, _READ)
        data = read_bytes(source)
    # A stream is what its first bytes say.
    kind = kind or next((kind for start, kind in _STARTS.items() if data.startswith(start)), ".csv")
    if kind == ".parquet":
        refuse_unreadable_parquet(data, name)
        return _Opened(data, kind, name)
    if kind == ".xlsx":
        from dpmarket.files.excel import excel_as_csv

        return _Opened(excel_as_csv(data, name), ".csv", name)
    refuse_unreadable_csv(data, name)
    data = _plain(data)
    return _Opened(data, kind, name, separator_of(data[:_HEAD].decode("latin-1")))


def _plain(data: bytes) -> bytes:
    """Return CSV in UTF-8 whose first line is the header."""
    if data.startswith(_UTF_16):
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            raise FileProblem("cannot read a table in UTF-16 that is cut off; save it as UTF-8.") from None
    if data.startswith(_SEP):  # Excel's line about the separator, which is seen without it
        data = data.partition(b"\n")[2]
    return data if b"\n" in data[:_HEAD] else data.replace(b"\r", b"\n")


@contextlib.contextmanager
def _refusing(file: _Opened) -> Iterator[None]:
    """Say why something is no table; nothing of polars' own words, which quote cells."""
    try:
        yield
    except FileProblem:
        raise
    except pl.exceptions.NoDataError:
        raise FileProblem(f"cannot read {file.name}: the file is empty.") from None
    except _BROKEN:
        if file.kind == ".parquet":
            raise FileProblem(f"cannot understand {file.name} as Parquet.") from None
        mark, where = file.mark, csv_problem(file.data, file.mark)
        raise FileProblem(
            f"cannot understand {file.name} as CSV: {f'{where}; ' if where else ''}expected UTF-8 text (in "
            f"Excel: 'CSV UTF-8') with the header in its first row and {SEPARATORS[mark]} between columns, "
            f"the same number in every row (a cell with '{mark}' in it needs quotes around it)."
        ) from None


def _without_blank_end(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table without the rows at its end in which nothing stands: blank lines after the last one."""
    if table.height == 0 or any(value is not None for value in table.row(-1)):
        return table
    filled = table.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return table.head(int(filled[-1]) + 1 if filled.len() else 0)


def _header(file: _Opened) -> list[str]:
    if file.kind == ".parquet":
        return list(pl.read_parquet_schema(io.BytesIO(file.data)))
    head = file.data[:_HEAD]
    line, end, _ = head.partition(b"\n")
    # A line end in quotes is none; what begins with a blank line is polars' to refuse.
    is_header = len(head) == _HEAD and end and line.strip() and b'"' not in line
    place = io.BytesIO(line + end) if is_header else io.BytesIO(file.data)
    # Without a header polars renames nothing, so that a column that is there twice is seen.
    first = pl.read_csv(place, n_rows=1, has_header=False, infer_schema=False, separator=file.mark)
    return ["" if value is None else value.removeprefix("\ufeff") for value in first.row(0)]


def _refuse_missing(columns: Sequence[str], there: Sequence[str], name: str) -> None:
    missing = [column for column in columns if column not in there]
    if missing:
        # The other names are not shown: in a file without a header row they are somebody's record.
        found = [column for column in columns if column in there]
        raise FileProblem(
            f"cannot find {_names(missing)} in {name}: of its {len(there)} columns only {_names(found)} "
            f"{'is' if len(found) == 1 else 'are'} expected."
            if found
            else f"cannot find {_names(missing)} in {name}: none of its {len(there)} columns is expected. Is "
            "the header row missing, or do the rules name other columns?"
        )
    twice = [column for column in dict.fromkeys(columns) if there.count(column) > 1]
    if twice:
        raise FileProblem(f"expected column {_names(twice)} once in {name}, found it more often.")


def _read_csv(file: _Opened, names: Mapping[str, str], numbers: Sequence[str]) -> pl.DataFrame:
    """Return columns, renamed from what the header has, as texts; ``numbers`` as floats if all are such."""
    options: dict[str, Any] = {"columns": list(names), "infer_schema": False, "separator": file.mark}
    floats = {written: pl.Float64 for written, name in names.items() if name in numbers}
    if file.mark == ",":  # else 1.234 may be a thousand
        with contextlib.suppress(pl.exceptions.ComputeError):
            return pl.read_csv(io.BytesIO(file.data), schema_overrides=floats, **options).rename(names)
    return pl.read_csv(io.BytesIO(file.data), **options).rename(names)


def _as_meant(table: pl.DataFrame, numbers: Sequence[str], file: _Opened) -> pl.DataFrame:
    """Return a table without what its program added to texts and numbers; say how it was read."""
    found = [one for one in numbers if table.schema[one] == pl.String]
    is_csv = file.kind == ".csv"
    table, commas = with_points(table, found, is_plain=is_csv and file.mark == ",")
    kept = [one for one in table.columns if table.schema[one] == pl.String and one not in found]
    said = [f"{SEPARATORS[file.mark]} between columns"] if is_csv and file.mark != "," else []
    said += [f"decimal commas in {_names(commas)}"] if commas else []
    if said:
        tell_reading(f"{file.name} was read with {' and '.join(said)}.")
    return table.with_columns([as_meant(table.get_column(one)) for one in kept])


def _as_text(table: pl.DataFrame, column: str, name: str) -> pl.Series:
    values = table.get_column(column)
    try:
        if values.dtype.is_float():  # a whole number is the same id wherever it stands
            whole = pl.col(column).cast(pl.Int64, strict=False)
            is_whole = (whole.cast(values.dtype) == pl.col(column)) & (whole.abs() < _LARGEST_WHOLE)
            text = pl.when(is_whole).then(whole.cast(pl.String)).otherwise(pl.col(column).cast(pl.String))
            return table.select(text.alias(column)).to_series()
        if not values.dtype.is_nested():
            return values.cast(pl.String)
    except pl.exceptions.PolarsError:  # its words quote a cell
        pass
    raise FileProblem(
        f"cannot use column {column!r} of {name}: expected text in UTF-8 or numbers, found cells of type "
        f"{values.dtype.base_type()}."
    ) from None


def _refuse_endless_texts(table: pl.DataFrame, file: _Opened) -> None:
    """Refuse texts that many cells share: in memory they are one until somebody asks for each of them."""
    texts = [column for column in table.columns if table.schema[column] == pl.String]
    total = sum(int(table.get_column(column).str.len_bytes().sum() or 0) for column in texts)
    if total > most_unpacked(len(file.data)):
        raise FileProblem(f"cannot read {file.name}: its texts are longer than those of any honest table.")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
