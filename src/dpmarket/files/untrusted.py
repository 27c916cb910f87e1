"""Refusals of untrusted tables before they are read: what they would become, and what they are not.

A hundred kilobytes of Parquet can stand for gigabytes: pages are compressed, and a run of equal values takes
a few bytes however long it is. The footer says how many values each column has, and every page says how large
it becomes; a page that becomes larger than it says is refused when it is unpacked. Both are written in
Thrift's compact protocol, of which this module reads what it needs.
"""

import csv
import io
import os
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

from dpmarket.errors import FileProblem, InvalidInput

_HEAD = 1 << 20
_COLUMNS = 20_000
_SMALL = 16 << 20
_RATIO = 256
_COMPRESSED = {
    b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"x\x01": "zlib", b"x\x9c": "zlib", b"x\xda": "zlib",
}  # fmt: skip


def most_unpacked(size: int) -> int:
    """Return how many bytes a table from a file of that size may take: much more is no honest table."""
    return _SMALL + _RATIO * size


def refuse_unreadable_csv(data: bytes, name: str) -> None:
    """Say in a clear word what the beginning of a file tells about one that is no CSV."""
    head = data[:_HEAD]
    for mark, kind in _COMPRESSED.items():
        # Two letters may begin an honest header; what follows them in a compressed file is no text.
        if head.startswith(mark) and not head[:64].isascii():
            raise FileProblem(f"cannot read {name}: it is compressed ({kind}); unpack it first.")
    header, end, _ = head.partition(b"\n")
    if not end and len(head) == _HEAD:
        raise FileProblem(f"cannot read {name}: its first row is longer than {_HEAD >> 20} MB.")
    if max(header.count(mark) for mark in b",;\t|") >= _COLUMNS:
        raise FileProblem(f"cannot read {name}: it has more than {_COLUMNS:,} columns.")


def refuse_unreadable_parquet(data: bytes, name: str) -> None:
    """Refuse what is no Parquet, or would unpack to far more than its size, or to too many columns."""
    try:
        found = parquet_size(data)
    except InvalidInput as problem:
        raise FileProblem(f"cannot understand {name} as Parquet: {problem}") from None
    if found.columns > _COLUMNS:
        raise FileProblem(f"cannot read {name}: it has more than {_COLUMNS:,} columns.")
    if found.unpacked > most_unpacked(len(data)):
        raise FileProblem(
            f"cannot read {name}: its {len(data):,} bytes would unpack to {found.unpacked:,}, more than "
            "those of any honest table; if it is one, save it as CSV."
        )


def csv_problem(data: bytes, separator: str = ",") -> str | None:
    r"""Return where bytes stop being CSV with the same number of cells in every row; None if nowhere.

    >>> csv_problem(b"seller,cost\na,1\nb,2,3\n")
    'line 3 has 3 cells, the header row 2'
    >>> csv_problem(b"seller,cost\nZo\xeb,1\n")
    'line 2 is no text in UTF-8'
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        return f"line {data.count(10, 0, problem.start) + 1} is no text in UTF-8"
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        header = next(reader, [])
        for row in reader:
            if row and len(row) != len(header):
                return f"line {reader.line_num} has {len(row)} cells, the header row {len(header)}"
    except csv.Error:
        return f"line {reader.line_num} cannot be cut into cells"
    return None


_FOOTER = 4 << 20
_WINDOWS = (4 << 10, 1 << 20)  # bytes of a page's header: most are short, statistics can be long
_PAGES = 200_000
_DEPTH = 12
_VALUE, _REFERENCE = 8, 16
_DELTA_BYTE_ARRAY = 7
_BYTES = (6, 7)
# Fields of the format's structures, by their numbers.
_SCHEMA, _ROWS, _GROUPS = 2, 3, 4
_REPETITION = 3
_CHUNKS, _META, _GROUP_ROWS = 1, 3, 3
_TYPE, _VALUES, _PACKED, _FIRST_PAGE, _DICTIONARY = 1, 5, 7, 9, 11
_PAGE_TYPE, _UNPACKED_PAGE, _PACKED_PAGE = 1, 2, 3
# Where the header of a page has its part, by the page's kind: data, dictionary, data of the second version.
_PART_OF = {0: 5, 2: 7, 3: 8}
_DICTIONARY_KIND, _SECOND_KIND = 2, 3


class ParquetSize(NamedTuple):
    """What a Parquet file becomes: its shape, nested columns as their parts, and bytes of its values."""

    rows: int
    columns: int
    unpacked: int


def parquet_size(data: bytes) -> ParquetSize:
    """Return the size of a Parquet file once it is unpacked; only its footer and page headers are read."""
    try:
        return _size(io.BytesIO(data))
    except InvalidInput:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        raise InvalidInput("its metadata are damaged.") from None


def _size(file: BinaryIO) -> ParquetSize:
    end = file.seek(0, os.SEEK_END) - 8
    if end < 4:
        raise InvalidInput("it is too short.")
    file.seek(end)
    tail = file.read(8)
    footer = int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or footer > end - 4:
        raise InvalidInput("it has no footer.")
    if footer > _FOOTER:
        raise InvalidInput(f"its footer is larger than {_FOOTER >> 20} MB.")
    end -= footer
    file.seek(end)
    found = _Reader(file.read(footer)).struct()
    groups, rows, columns = found.get(_GROUPS, []), found[_ROWS], len(found[_SCHEMA]) - 1
    repeated = any(part.get(_REPETITION) == 2 for part in found[_SCHEMA])
    _need(rows >= 0 and sum(group[_GROUP_ROWS] for group in groups) == rows)
    unpacked = pages = 0
    for group in groups:
        for chunk in (part[_META] for part in group[_CHUNKS]):
            start = min(chunk[_FIRST_PAGE], chunk.get(_DICTIONARY, 0) or chunk[_FIRST_PAGE])
            _need(4 <= start <= start + chunk[_PACKED] <= end)
            size = values = entries = 0
            for place, page in enumerate(_pages(file, start, start + chunk[_PACKED])):
                pages += 1
                if pages > _PAGES:
                    raise InvalidInput(f"it has more than {_PAGES:,} pages.")
                size += page.unpacked
                if page.is_dictionary:
                    _need(place == 0 and page.values <= 8 * page.unpacked)
                    entries = page.values
                else:
                    values += page.values
            # Without lists every row has one value in every column, and every value stands in one page.
            _need(values == chunk[_VALUES] >= 0)
            _need(repeated or values == group[_GROUP_ROWS])
            is_text, values = chunk[_TYPE] in _BYTES, values + entries
            unpacked += size + _REFERENCE * values if is_text else max(size, _VALUE * values)
    return ParquetSize(rows, columns, max(unpacked, _VALUE * rows * columns))


class _Page(NamedTuple):
    values: int
    unpacked: int
    is_dictionary: bool


def _pages(file: BinaryIO, start: int, end: int) -> Iterator[_Page]:
    while start < end:
        header, length = _page_header(file, start, end)
        size, packed, kind = header[_UNPACKED_PAGE], header[_PACKED_PAGE], header[_PAGE_TYPE]
        page = header[_PART_OF[kind]]
        _need(size >= 0 and 0 <= packed <= end - start - length)
        _need(page[1] >= 0 and len(header.keys() & _PART_OF.values()) == 1)
        if kind == _SECOND_KIND:
            levels = page.get(5, 0), page.get(6, 0)
            _need(min(page[2], page[3], *levels) >= 0 and sum(levels) <= min(size, packed))
            _need(max(page[2], page[3]) <= page[1])
        if page[4 if kind == _SECOND_KIND else 2] == _DELTA_BYTE_ARRAY:
            raise InvalidInput("its texts are encoded by what they share, which can grow without end.")
        yield _Page(page[1], size, kind == _DICTIONARY_KIND)
        start += length + packed


def _need(consistent: bool) -> None:  # noqa: FBT001 - a condition, as of an assertion
    if not consistent:
        raise InvalidInput("its parts contradict each other.")


def _page_header(file: BinaryIO, start: int, end: int) -> tuple[dict[int, Any], int]:
    for window in _WINDOWS:
        file.seek(start)
        reader = _Reader(file.read(min(window, end - start)))
        try:
            return reader.struct(), reader.place
        except IndexError:
            continue
    raise InvalidInput("its pages are damaged.")


class _Reader:
    """Reads Thrift's compact protocol from bytes; runs out of them with an IndexError."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a structure by their numbers."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._signed()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEPTH:
            raise ValueError
        if kind in (1, 2, 3):  # truths of lists, and bytes
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 7:
            return self._bytes(8)
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (9, 10):
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            if count > len(self.data) - self.place:  # every element takes at least one byte
                raise IndexError
            return [self._value(head & 15, depth + 1) for _ in range(count)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError

    def _byte(self) -> int:
        value = self.data[self.place]
        self.place += 1
        return value

    def _bytes(self, count: int) -> bytes:
        if count > len(self.data) - self.place:
            raise IndexError
        self.place += count
        return self.data[self.place - count : self.place]

    def _unsigned(self) -> int:
        value = shift = 0
        while shift < 64:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise ValueError

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
