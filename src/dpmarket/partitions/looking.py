"""Look at all partitions of reports: refuse them with all that is wrong, or count them.

Also what every pass needs: the files of partitions, a folder for the work, and passes that are counted.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from dpmarket.costs import CostDistribution
from dpmarket.errors import FileProblem, InvalidInput
from dpmarket.files import refuse_existing, refuse_unwritable
from dpmarket.partitions.engines import Engine, as_engine
from dpmarket.partitions.ids import ranges_of, repeated_hashes
from dpmarket.partitions.passes import Place, Repeated, Scanned, forget, rows_of, scan, sentence_of
from dpmarket.progress import StageProgress

SCRATCH = "scratch"
"""The folder, within that of the work, of what no longer matters when quotes are written."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Aside = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
"""What runs tasks that read no reports."""


def partition_paths(pattern: str | os.PathLike[str]) -> list[Path]:
    """Return the files that a pattern such as ``reports/*.parquet`` names, in the order of their names.

    Raises
    ------
    FileProblem
        There is none.
    """
    found = sorted(Path(name) for name in glob.glob(os.fspath(pattern)))
    if not found:
        raise FileProblem(f"cannot read {pattern}: there is no such file.")
    return found


@dataclass(frozen=True)
class Counts:
    """What is known of all reports after the first pass, without a look at a cost.

    Attributes
    ----------
    sellers, below, above
        How many there are, and how many of them report less or more than the distribution knows.
    sums
        Of the hashes of all reports, modulo 2**64.
    lists
        The files of hashes of the sellers' ids.
    """

    sellers: int
    below: int
    above: int
    sums: tuple[int, int]
    lists: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Looked:
    """Partitions that can be used, after the first pass.

    Attributes
    ----------
    runner
        For further passes.
    work
        A folder for what they write.
    target
        What it will become.
    id_column
        Of the reports.
    places, scanned, counts
        What the first pass told.
    """

    runner: Runner
    work: Path
    target: Path
    id_column: str
    places: Sequence[Place]
    scanned: Sequence[Scanned]
    counts: Counts


@contextmanager
def looking_at(
    paths: Sequence[Path],
    out: str | os.PathLike[str],
    dist: CostDistribution,
    *,
    engine: Any,
    columns: tuple[str, str],
    keys: tuple[int, int, int] | None = None,
    by_person: bool = False,
    progress: StageProgress = lambda what, share: None,
) -> Iterator[Looked]:
    """Look at all partitions, or refuse them with all that is wrong; nothing is left behind.

    ``by_person``: whether ids are also written by person, so that people can be looked up.
    """
    target = Path(out)
    refuse_unusable(paths, target)
    runner = Runner(as_engine(engine), progress)
    with folder_beside(target) as work, runner.keeping(work) as keep:
        places = places_of(paths, work, dist, columns, keys, keep=keep)
        if by_person:
            folder = work.absolute() / SCRATCH
            folder.mkdir(mode=0o700)
            places = [
                replace(place, people=(k, len(places), str(folder / f"people-{k}.arrow")))
                for k, place in enumerate(places)
            ]
        scanned, counts = looked_at(runner, places)
        yield Looked(runner, work, target, columns[0], places, scanned, counts)


@contextmanager
def folder_beside(target: Path) -> Iterator[Path]:
    """Give an empty folder that only its owner may look into; what is still there at the end is removed.

    So is what a run for the same target left that was killed: rows of people may be in it.
    """
    _remove_what_the_dead_left(target)
    try:
        work, descriptor = _own_folder(target)
    except OSError as problem:
        raise FileProblem(f"cannot write {target}: {problem.strerror or problem}.") from None
    try:
        try:
            (work / "hashes").mkdir(mode=0o700)
        except OSError as problem:
            raise FileProblem(f"cannot write {target}: {problem.strerror or problem}.") from None
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)
        os.close(descriptor)


def put_in_place(folder: Path, target: Path) -> None:
    """Let a finished folder appear, without what workers left in it that died while they wrote."""
    for left in folder.rglob("*.tmp"):
        left.unlink(missing_ok=True)
    os.rename(folder, target)


def _own_folder(target: Path) -> tuple[Path, int]:
    """Make a folder that is this process's until it ends, however it does."""
    while True:
        work = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        work.mkdir(mode=0o700)
        descriptor = os.open(work, os.O_RDONLY)
        # Another run may have taken it for a dead one's in between: it is then removed, and another is made.
        if _taken(descriptor) is not False and work.exists():
            return work, descriptor
        os.close(descriptor)


def _remove_what_the_dead_left(target: Path) -> None:
    ours = re.compile(re.escape(f".{target.name}.") + r"[0-9a-f]{12}\.tmp")
    with contextlib.suppress(OSError):
        for beside in target.parent.iterdir():
            if ours.fullmatch(beside.name) and beside.is_dir() and not beside.is_symlink():
                _remove_if_dead(beside)


def _remove_if_dead(folder: Path) -> None:
    with contextlib.suppress(OSError):  # somebody else's
        descriptor = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
        try:
            if _taken(descriptor):
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


def _taken(descriptor: int) -> bool | None:
    """Take a folder; return whether it is ours, or None where a file system knows no such thing."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def looked_at(runner: Runner, places: Sequence[Place]) -> tuple[list[Scanned], Counts]:
    """Return what the first pass tells, or refuse with all problems."""
    scanned = runner.map("reading", scan, places)
    _refuse_problems(scanned)
    counts = counts_of(places, scanned)
    runner.meanwhile(lambda aside: _refuse_repeated(aside, places, scanned, counts))
    return scanned, counts


def counts_of(places: Sequence[Place], scanned: Sequence[Scanned]) -> Counts:
    """Return what is known of the reports of all partitions."""
    first, second = (sum(part.sums[k] for part in scanned) % (1 << 64) for k in range(2))
    return Counts(
        sellers=sum(part.rows for part in scanned),
        below=sum(part.below for part in scanned),
        above=sum(part.above for part in scanned),
        sums=(first, second),
        lists=tuple(place.hashes for place in places),
    )


class Runner:
    """Runs passes on an engine, counts them, and tells how far they are."""

    def __init__(self, engine: Engine, progress: StageProgress, expected: int = 3) -> None:
        self._engine = engine
        self._progress = progress
        self._expected = expected
        self._check: Future[None] | None = None
        self.passes = 0

    @contextmanager
    def keeping(self, work: Path) -> Iterator[int]:
        """Tell a block how many bytes workers may keep; its end waits for a check, and forgets them."""
        everywhere = getattr(self._engine, "everywhere", None)
        try:
            yield 0 if everywhere is None else int(getattr(self._engine, "keeps", 0))
        except Exception:
            self._settle()  # what is wrong with the files goes before what anybody else says
            raise
        else:
            self._settle()
        finally:
            wait([] if self._check is None else [self._check])
            if everywhere is not None:
                everywhere(forget, str(work.absolute()))

    def meanwhile(self, check: Callable[[Aside], None]) -> None:
        """Run a check beside what the driver does now; the next pass, or the end, raises what it raises."""
        thread = ThreadPoolExecutor(1)
        self._check = thread.submit(check, self._aside)
        thread.shutdown(wait=False)

    def _settle(self) -> None:
        check, self._check = self._check, None
        if check is not None:
            check.result()

    def map(self, words: str, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Run a pass over all partitions."""
        self._settle()
        self.passes += 1
        number, done = self.passes, 0

        def tell() -> None:
            nonlocal done
            done += 1
            share = (number - 1 + done / len(items)) / self._expected
            self._progress(f"{words}: pass {number}, partition {done} of {len(items)}", min(share, 1.0))

        return self._engine.map(function, items, tell)

    def aside(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Run tasks that read no reports."""
        self._settle()
        return self._aside(function, items)

    def _aside(self, function: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        return self._engine.map(function, items, lambda: None)


def refuse_unusable(sources: Sequence[Path], target: Path) -> None:
    """Refuse no partitions, several of one name, and a folder for quotes that is there or cannot be."""
    if not sources:
        raise InvalidInput("expected at least one partition, got none.")
    refuse_existing(target)
    refuse_unwritable(target)
    names = [source.stem for source in sources]
    twice = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    if twice:
        raise FileProblem(
            f"expected partitions with different names, found {len(twice)} names of several files."
        )


def places_of(
    sources: Sequence[Path],
    work: Path,
    dist: CostDistribution,
    columns: tuple[str, str],
    keys: tuple[int, int, int] | None,
    *,
    keep: int = 0,
) -> list[Place]:
    """Return what tasks need to know of each partition, with places for lists and quotes in a folder."""
    text = json.dumps(dist.to_dict())
    folder = work.absolute()
    return [
        Place(
            source=str(source.absolute()),
            id_column=columns[0],
            cost_column=columns[1],
            distribution=text,
            hashes=str(folder / "hashes" / f"{source.stem}.npy"),
            quotes=str(folder / f"{source.stem}.parquet"),
            keys=keys,
            keep=keep,
        )
        for source in sources
    ]


def _refuse_problems(scanned: Sequence[Scanned]) -> None:
    problems = [sentence for part in scanned for sentence in part.problems]
    if problems:
        bad = sum(1 for part in scanned if part.problems)
        raise FileProblem(f"cannot use {bad} of {len(scanned)} partitions; nothing was written.", problems)


def _refuse_repeated(
    aside: Aside, places: Sequence[Place], scanned: Sequence[Scanned], counts: Counts
) -> None:
    found = aside(repeated_hashes, ranges_of(counts.lists, counts.sellers))
    wanted = tuple(value for part in found for value in part)
    if not wanted:
        return
    seen: set[bytes] = set()
    offending: list[Repeated] = []
    asked = [Repeated(place, part.check, wanted) for place, part in zip(places, scanned, strict=True)]
    for one, part in zip(asked, aside(rows_of, asked), strict=True):
        again = tuple(row for row, digest in part if digest in seen)
        seen.update(digest for _, digest in part)
        if again:
            offending.append(replace(one, numbers=again))
    if offending:
        raise FileProblem(
            f"cannot use {len(offending)} of {len(places)} partitions; nothing was written.",
            aside(sentence_of, offending),
        )
