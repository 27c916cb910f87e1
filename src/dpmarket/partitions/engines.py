"""Run one function on many items: in threads, in processes, or on a Dask cluster.

Everything in this room needs one thing of an engine: ``map(function, items, done)``, which returns the
results in the order of the items. Functions are public ones of modules, items and results are small; a task
that an engine runs twice, because a worker was lost, writes the same file twice.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

from dpmarket import checks
from dpmarket.errors import DpmarketError, InvalidInput

Item = TypeVar("Item")
Result = TypeVar("Result")
_ADDRESS = "dask://"


class EngineLost(DpmarketError, RuntimeError):
    """The workers of an engine are gone, or it cannot be reached; what was begun left nothing behind.

    Examples
    --------
    >>> str(EngineLost("the workers died."))
    'the workers died.'
    """


class Engine(Protocol):
    """What runs tasks: another one is one such method, called from any thread, never twice at once.

    If its workers last from one map to the next, it may have a second one, ``everywhere(function, item)``,
    which runs a function in each of their processes, and say how many bytes each may keep of what it has
    read (``keeps``).

    Examples
    --------
    >>> class OneAfterTheOther:
    ...     def map(self, function, items, done=lambda: None):
    ...         return [function(item) for item in items]
    >>> OneAfterTheOther().map(abs, [-1, 2])
    [1, 2]
    """

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item], done: Callable[[], object] = ...
    ) -> list[Result]:
        """Return the function's results in the order of the items; call ``done`` after each of them."""
        ...


@dataclass(frozen=True)
class Threads:
    """Run tasks in threads of this process; what they compute lets go of Python's lock.

    Parameters
    ----------
    workers
        How many; None: one for each processor, and one that computes while another waits for the disk.

    Examples
    --------
    >>> Threads(2).map(abs, [-1, 2, -3])
    [1, 2, 3]
    """

    workers: int | None = None
    keeps: ClassVar[int] = 512 << 20

    def __post_init__(self) -> None:
        _check_workers(self.workers)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        done: Callable[[], object] = lambda: None,
    ) -> list[Result]:
        """Return the function's results in the order of the items."""
        with ThreadPoolExecutor(self.workers or _processors() + 1) as pool:
            return _collected(pool, function, items, done)

    def everywhere(self, function: Callable[[Item], object], item: Item) -> None:
        """Run a function in this process, the only one there is."""
        function(item)


@dataclass(frozen=True)
class Processes:
    """Run tasks in processes of their own on this machine.

    Parameters
    ----------
    workers
        How many; None: one for each processor.

    Examples
    --------
    >>> Processes(2).workers
    2
    """

    workers: int | None = None

    def __post_init__(self) -> None:
        _check_workers(self.workers)

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        done: Callable[[], object] = lambda: None,
    ) -> list[Result]:
        """Return the function's results in the order of the items."""
        # A fork would copy locks that other threads hold.
        context = multiprocessing.get_context("spawn")
        count = min(self.workers or _processors(), max(len(items), 1))
        try:
            with ProcessPoolExecutor(count, mp_context=context) as pool:
                return _collected(pool, function, items, done)
        except BrokenProcessPool:
            raise EngineLost("expected every process to finish its part, found that one died.") from None


@dataclass(frozen=True)
class DaskEngine:
    """Run tasks on a Dask cluster, whose workers see the same files and have the same dpmarket.

    A worker that dies loses nothing: its tasks are run by another one.

    Parameters
    ----------
    client
        A ``distributed.Client``.

    Examples
    --------
    >>> from unittest.mock import Mock
    >>> DaskEngine(Mock(spec=["map"])).client is None
    False
    """

    client: Any
    # A worker of one gigabyte is paused by Dask when four fifths are used.
    keeps: ClassVar[int] = 64 << 20

    def map(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        done: Callable[[], object] = lambda: None,
    ) -> list[Result]:
        """Return the function's results in the order of the items."""
        import distributed

        finished: Any = distributed.as_completed
        futures = self.client.map(function, list(items), pure=False)
        places = {future.key: place for place, future in enumerate(futures)}
        results: list[Any] = [None] * len(futures)
        try:
            for future in finished(futures, loop=self.client.loop):
                results[places[future.key]] = future.result()
                done()
        except (distributed.KilledWorker, OSError) as problem:
            if isinstance(problem, DpmarketError):
                raise
            raise EngineLost(
                "expected workers that finish their part, found that several died at the same one; do they "
                "have memory enough and see the same files?"
            ) from None
        finally:
            self.client.cancel(futures)
        return results

    def everywhere(self, function: Callable[[Item], object], item: Item) -> None:
        """Run a function in every worker that can be reached."""
        with suppress(Exception):  # a worker that cannot be reached keeps nothing either
            self.client.run(function, item, on_error="ignore")


def as_engine(engine: object) -> Engine:
    """Return the engine that an argument stands for.

    Parameters
    ----------
    engine
        An engine, a ``distributed.Client``, or None for threads.

    Raises
    ------
    InvalidInput
        Something else.

    Examples
    --------
    >>> as_engine(None)
    Threads(workers=None)
    """
    if engine is None:
        return Threads()
    if callable(getattr(engine, "scheduler_info", None)):
        return DaskEngine(engine)
    if callable(getattr(engine, "map", None)):
        return engine  # type: ignore[return-value]
    raise InvalidInput("expected an engine, that is something with map(function, items), or a Dask client.")


@contextmanager
def engine_named(name: str) -> Iterator[Engine]:
    """Give the engine that a text names, while a block runs.

    Parameters
    ----------
    name
        ``threads``, ``processes``, or ``dask://host:port`` for the scheduler of a cluster.

    Raises
    ------
    InvalidInput
        Another text.
    EngineLost
        There is no cluster at that address, or Dask is not installed.

    Examples
    --------
    >>> with engine_named("threads") as engine:
    ...     engine.map(len, ["ab", "c"])
    [2, 1]
    """
    if name == "threads":
        yield Threads()
    elif name == "processes":
        yield Processes()
    elif name.startswith(_ADDRESS) and _is_address(name.removeprefix(_ADDRESS)):
        with _client(name.removeprefix(_ADDRESS)) as client:
            yield DaskEngine(client)
    else:
        raise InvalidInput(f"expected threads, processes or dask://host:port, got {name!r}.")


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return bool(host) and "/" not in host and port.isdecimal() and 0 < int(port) < 1 << 16


def _client(address: str) -> Any:
    try:
        import distributed
    except ImportError:
        raise EngineLost("expected Dask to be installed: pip install 'dpmarket[dask]'.") from None
    try:
        connect: Any = distributed.Client
        return connect(f"tcp://{address}", timeout=10, set_as_default=False)
    except OSError:
        raise EngineLost(f"cannot reach a Dask scheduler at {address}.") from None


def _collected(
    pool: Executor,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    done: Callable[[], object],
) -> list[Result]:
    futures = [pool.submit(function, item) for item in items]
    try:
        for future in as_completed(futures):
            future.result()
            done()
    except BaseException:
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    return [future.result() for future in futures]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_workers(workers: int | None) -> None:
    if workers is not None:
        checks.at_least("workers", workers, 1)
