"""Read tables as people have them (CSV of any kind, Excel, Parquet), and write CSV and Parquet.

The file's ending says which, ``-`` is standard input or output. Separators, decimal commas and byte-order
marks are recognised, and :func:`~dpmarket.progress.tell_reading` says so.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl

from dpmarket.errors import FileProblem
from dpmarket.files.atomic import PRIVATE, atomic_path, is_standard_stream, read_bytes, write_bytes
from dpmarket.files.dialect import SEPARATORS, is_of_numbers, separator_of, with_points
from dpmarket.files.formulas import as_meant, csv_text, write_csv
from dpmarket.files.untrusted import (
    Source,
    csv_problem,
    most_unpacked,
    refuse_unreadable_csv,
    refuse_unreadable_parquet,
    size_of,
)
from dpmarket.progress import tell_reading

_HEAD = 1 << 16  # bytes
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

    Parameters
    ----------
    source
        A .csv (.tsv, .txt), .xlsx or .parquet file; ``-`` is the standard input. It, and content in memory,
        is what its first bytes say.
    columns, if_there
        The columns to read, None: all; and those of them that may be missing.
    texts
        Columns of texts, whatever they hold: ``007`` stays ``007``. Of CSV all columns are texts but
        ``numbers``, without the apostrophe that keeps spreadsheets from running a cell.
    numbers
        Columns of numbers. Cells that are none, or have what may be a separator of thousands, are left for
        :func:`~dpmarket.files.columns.numbers_of` to find. Where all columns are read, those that hold
        nothing else.

    Raises
    ------
    FileProblem
        The message never contains a value of the table, nor a column's name that was not asked for: without
        a header row, that would be a value.
    """
    place, kind = _open(source)
    name = _name(source)
    _refuse_unreadable(place, kind, name)
    mark = separator_of(_head(place).decode("latin-1")) if kind == ".csv" else ","
    try:
        written = _header(place, kind, name, mark)
        there = [one.strip() for one in written]
        if columns is None and 2 * there.count("") > len(there):
            raise FileProblem(
                f"cannot read {name}: most of its columns have no name; the header must be its first row."
            )
        named = [one for one in there if one] if columns is None else columns
        wanted = [one for one in named if one in there or one not in if_there]
        _refuse_missing(wanted, there, name)
        texts, numbers = ([one for one in names if one in wanted] for names in (texts, numbers))
        if kind == ".csv":
            raw = [written[there.index(one)] for one in wanted]
            table = _read_csv(place, mark, dict(zip(wanted, raw, strict=True)), numbers)
        elif kind == ".xlsx":
            from dpmarket.files.excel import read_excel

            table = read_excel(place, name, wanted, texts)
        else:
            table = pl.read_parquet(_readable(place), columns=wanted)
    except pl.exceptions.NoDataError:
        raise FileProblem(f"cannot read {name}: the file is empty.") from None
    except FileProblem:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError):
        # polars quotes the offending cell, which may be private: its words are not passed on.
        raise FileProblem(_not_a_table(place, kind, name, mark)) from None
    if kind != ".parquet":
        table = _without_blank_end(table)
    if table.height == 0:
        raise FileProblem(f"cannot use {name}: it has a header but no rows.")
    table = table.with_columns([_as_text(table, text, name) for text in texts])
    if kind == ".parquet":
        _refuse_endless_texts(table, place, name)
    else:
        if columns is None:
            numbers = [one.name for one in table if one.dtype == pl.String and is_of_numbers(one)]
        table = _as_meant(table, numbers, mark if kind == ".csv" else "", name)
    return table.select(wanted)


def _as_meant(table: pl.DataFrame, numbers: Sequence[str], mark: str, name: str) -> pl.DataFrame:
    """Return a table without what its program added to texts and numbers; say how it was read."""
    found = [one for one in numbers if table.schema[one] == pl.String]
    table, commas = with_points(table, found, is_plain=mark == ",")
    kept = [one for one in table.columns if table.schema[one] == pl.String and one not in found]
    said = [] if mark in ("", ",") else [f"{SEPARATORS[mark]} between columns"]
    said += [f"decimal commas in {_names(commas)}"] if commas else []
    if said:
        tell_reading(f"{name} was read with {' and '.join(said)}.")
    return table.with_columns([as_meant(table.get_column(one)) for one in kept])


def column_names(source: str | os.PathLike[str] | bytes) -> list[str]:
    """Return the names of a file's columns, in order."""
    place, kind = _open(source)
    name = _name(source)
    _refuse_unreadable(place, kind, name)
    try:
        mark = separator_of(_head(place).decode("latin-1")) if kind == ".csv" else ","
        return [one.strip() for one in _header(place, kind, name, mark)]
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, UnicodeDecodeError):
        raise FileProblem(f"cannot understand {name} as a table.") from None


def csv_columns(data: bytes) -> dict[str, list[str]]:
    """Return the columns of CSV text with a header row, every cell as text, by the header's names."""
    try:
        table = pl.read_csv(io.BytesIO(data), infer_schema=False)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError):
        raise FileProblem("expected CSV text in UTF-8 with a header row, got something else.") from None
    return {name: table.get_column(name).to_list() for name in table.columns}


def write_table(target: str | os.PathLike[str], table: pl.DataFrame, *, overwrite: bool = True) -> None:
    """Write a table to a .csv or .parquet file, atomically, losing no bit.

    Tables are about individuals: only the file's owner may read it. ``-`` is the standard output, as CSV. In
    CSV, texts that a spreadsheet would run get an apostrophe in front (:mod:`dpmarket.files.formulas`), which
    :func:`read_table` takes off again.
    """
    with writing_table(target, table, overwrite=overwrite):
        pass


@contextlib.contextmanager
def writing_table(
    target: str | os.PathLike[str], table: pl.DataFrame, *, overwrite: bool = True
) -> Iterator[Callable[[], None]]:
    """Write a table as :func:`write_table` does while a block runs, and show it when the block has succeeded.

    The table goes to a temporary file meanwhile. The target appears, or the standard output is written, at
    the end of the block; if the block raises, nothing does. What is given waits until all of the table is in
    the temporary file, or raises because it does not fit there.
    """
    kind = ".csv" if is_standard_stream(target) else table_kind(target)
    if is_standard_stream(target):
        yield lambda: None
        write_bytes(target, csv_text(table))
        return
    with atomic_path(target, overwrite=overwrite, mode=PRIVATE) as temporary, ThreadPoolExecutor(1) as thread:
        writing = thread.submit(_write, temporary, kind, table)

        def finished() -> None:
            writing.result()

        yield finished
        finished()


def _write(path: Path, kind: str, table: pl.DataFrame) -> None:
    with path.open("wb") as file:
        if kind == ".csv":
            write_csv(file, table)
        else:
            # The lowest level takes little more than half the time of the usual one, and files are about as
            # small. Statistics help those who look for some rows; these tables are read whole.
            table.write_parquet(file, compression_level=1, statistics=False)


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


def _refuse_unreadable(place: Source, kind: str, name: str) -> None:
    if kind == ".csv":
        refuse_unreadable_csv(place, name)
    elif kind == ".parquet":
        refuse_unreadable_parquet(place, name)


def _name(source: str | os.PathLike[str] | bytes) -> str:
    if isinstance(source, bytes):
        return "the table"
    return "the standard input" if is_standard_stream(source) else str(source)


def _open(source: str | os.PathLike[str] | bytes) -> tuple[Source, str]:
    """Return a file or content, and what it is; of CSV that has to be changed, content."""
    if isinstance(source, bytes):
        return _stream(source)
    if is_standard_stream(source):
        return _stream(read_bytes(source))
    path = Path(source)
    if path.is_dir():
        raise FileProblem(f"cannot read {path}: it is a folder; name a file.")
    if not path.exists():
        raise FileProblem(f"cannot read {path}: there is no such file.")
    if not path.is_file():  # a pipe or a device: read once, recognised by its first bytes
        return _stream(read_bytes(path))
    kind = _kind(path, _READ)
    if kind != ".csv":
        return path, kind
    head = _head(path)
    is_usual = not head.startswith((*_UTF_16, *_SEP)) and (b"\n" in head or b"\r" not in head)
    return (path if is_usual else _plain(read_bytes(path))), kind


def _stream(data: bytes) -> tuple[bytes, str]:
    kind = next((kind for start, kind in _STARTS.items() if data.startswith(start)), ".csv")
    return (_plain(data) if kind == ".csv" else data), kind


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


def _head(place: Source) -> bytes:
    if isinstance(place, Path):
        with place.open("rb") as file:
            return file.read(_HEAD)
    return place[:_HEAD]


def _not_a_table(place: Source, kind: str, name: str, mark: str) -> str:
    """Say why something is no table; nothing of polars' own words, which quote cells."""
    if kind == ".parquet":
        return f"cannot understand {name} as Parquet."
    where = csv_problem(read_bytes(place) if isinstance(place, Path) else place, mark)
    return (
        f"cannot understand {name} as CSV: {f'{where}; ' if where else ''}expected UTF-8 text (in Excel: "
        f"'CSV UTF-8') with the header in its first row and {SEPARATORS[mark]} between columns, the same "
        f"number in every row (a cell with '{mark}' in it needs quotes around it)."
    )


def _without_blank_end(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table without the rows at its end in which nothing stands: blank lines after the last one."""
    if table.height == 0 or any(value is not None for value in table.row(-1)):
        return table
    filled = table.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return table.head(int(filled[-1]) + 1 if filled.len() else 0)


def _readable(place: Source) -> Path | io.BytesIO:
    return place if isinstance(place, Path) else io.BytesIO(place)


def _header(place: Source, kind: str, name: str, mark: str) -> list[str]:
    if kind == ".parquet":
        return list(pl.read_parquet_schema(_readable(place)))
    if kind == ".xlsx":
        from dpmarket.files.excel import excel_columns

        return excel_columns(place, name)
    # Without a header polars renames nothing, so that a column that is there twice is seen.
    first = pl.read_csv(_beginning(place), n_rows=1, has_header=False, infer_schema=False, separator=mark)
    return ["" if value is None else value.removeprefix("\ufeff") for value in first.row(0)]


def _beginning(place: Source) -> Path | io.BytesIO:
    """Return the first line of long CSV if it is the header for sure, otherwise all of it."""
    head = _head(place)
    line, end, _ = head.partition(b"\n")
    # A line end in quotes is none; what begins with a blank line is polars' to refuse.
    is_header = len(head) == _HEAD and end and line.strip() and b'"' not in line
    return io.BytesIO(line + end) if is_header else _readable(place)


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
            "the header row missing?"
        )
    twice = [column for column in dict.fromkeys(columns) if there.count(column) > 1]
    if twice:
        raise FileProblem(f"expected column {_names(twice)} once in {name}, found it more often.")


def _read_csv(place: Source, mark: str, columns: Mapping[str, str], numbers: Sequence[str]) -> pl.DataFrame:
    """Return columns, by the name in the header of each, as texts; ``numbers`` as floats if all are such."""
    options: dict[str, Any] = {"columns": list(columns.values()), "infer_schema": False, "separator": mark}
    floats = {columns[one]: pl.Float64 for one in numbers}
    names = {written: name for name, written in columns.items()}
    if mark == ",":  # else 1.234 may be a thousand
        with contextlib.suppress(pl.exceptions.ComputeError):
            return pl.read_csv(_readable(place), schema_overrides=floats, **options).rename(names)
    return pl.read_csv(_readable(place), **options).rename(names)


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


def _refuse_endless_texts(table: pl.DataFrame, place: Source, name: str) -> None:
    """Refuse texts that many cells share: in memory they are one until somebody asks for each of them."""
    texts = [column for column in table.columns if table.schema[column] == pl.String]
    total = sum(int(table.get_column(column).str.len_bytes().sum() or 0) for column in texts)
    if total > most_unpacked(size_of(place)):
        raise FileProblem(f"cannot read {name}: its texts are longer than those of any honest table.")


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in list(names)[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
