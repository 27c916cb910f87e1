"""Parts: values on the workers of a Dask cluster, in order, and what is computed from each of them.

A part is a pure function of files or of partitions of a data frame: when a worker dies, the scheduler
computes its parts again, with the same result. Only what a function returns to :meth:`Parts.get` leaves the
workers, and it arrives in the order of the parts: sums do not depend on who computed what.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from operator import getitem
from typing import Any

import numpy as np
import polars as pl

from distributed import Client, LocalCluster, default_client
from dpmarket.errors import FileProblem, InvalidInput

_WORKERS = 2
_WAIT = "20s"


@dataclass(frozen=True, eq=False)
class Parts:
    """Values on workers, in order.

    >>> with connected("local") as client:
    ...     Parts.of(client, [1, 2, 3]).map(pow, [2, 3, 4]).get()
    [1, 8, 81]
    """

    client: Client
    futures: list[Any]

    @classmethod
    def of(cls, client: Client, values: Sequence[Any]) -> Parts:
        """Return parts of values that are here; ``map`` reads what they name."""
        return cls(client, list(values))

    def map(self, function: Callable[..., Any], *each: Sequence[Any], **same: Any) -> Parts:
        """Return a function's values for each part, with the part's own elements of ``each``."""
        task = partial(function, **same)
        return Parts(self.client, self.client.map(task, self.futures, *each, pure=False))

    def get(self, function: Callable[..., Any] | None = None, *each: Sequence[Any], **same: Any) -> list[Any]:
        """Return the parts themselves, or a function's values for them, from the workers."""
        if function is not None:
            return self.map(function, *each, **same).get()
        return list(self.client.gather(self.futures))

    def exchanged(self) -> Parts:
        """Return for each position of parts that are equally long tuples the list of what all have there."""
        count = len(self.futures)
        columns = ([self.client.submit(getitem, one, k) for one in self.futures] for k in range(count))
        return Parts(self.client, [self.client.submit(list, column, pure=False) for column in columns])


@contextmanager
def connected(where: str) -> Iterator[Client]:
    """Connect to the scheduler at an address, or start workers on this machine for ``"local"``.

    Parameters
    ----------
    where
        Such as ``tcp://10.0.0.5:8786``, or ``local``: two workers of one thread.

    Returns
    -------
    Client
        For a ``with`` block.

    Raises
    ------
    FileProblem
        Nobody answers there.

    Examples
    --------
    >>> with connected("local") as client:  # doctest: +SKIP
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    if where == "local":
        cluster = LocalCluster(
            n_workers=_WORKERS,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
            silence_logs=logging.ERROR,
        )
        with cluster, Client(cluster) as client:
            yield client
        return
    try:
        client = Client(where, timeout=_WAIT)
    except (OSError, ValueError) as problem:
        raise FileProblem(f"cannot reach a Dask scheduler at {where}") from problem
    with client:
        yield client


def client_of_caller() -> Client:
    """Return the client that the caller's program has, or refuse.

    Raises
    ------
    InvalidInput
        There is none.
    """
    try:
        return default_client()
    except ValueError:
        raise InvalidInput("expected a Dask cluster: make a distributed.Client first.") from None


def shared_ids(parts: Parts, read: Callable[[Any], pl.Series]) -> int:
    """Return how many ids stand in more than one part, or twice in one; ``read`` returns those of a part.

    Workers send each other hashes of 64 bits. What collides by chance does not collide under a second key.
    """
    for _ in range(2):
        slices = parts.map(_slices, read=read, key=secrets.randbits(60), count=len(parts.futures))
        found = repeated_in(slices)
        if not found:
            break
    return found


def slices_of(ids: pl.Series, key: int, count: int) -> tuple[Any, ...]:
    """Return the hashes of ids, sorted, in as many slices as there are parts."""
    hashes = np.sort(ids.hash(key).to_numpy())
    ends = [(k << 64) // count for k in range(1, count)]
    return tuple(np.split(hashes, np.searchsorted(hashes, np.array(ends, dtype=np.uint64))))


def repeated_in(slices: Parts) -> int:
    """Return how many hashes stand in two places of parts of slices; workers send each other the slices."""
    return sum(map(int, slices.exchanged().get(_repeated)))


def _slices(part: Any, read: Callable[[Any], pl.Series], key: int, count: int) -> tuple[Any, ...]:
    return slices_of(read(part), key, count)


def _repeated(slices: list[Any]) -> int:
    hashes = np.sort(np.concatenate(slices))
    return int((hashes[1:] == hashes[:-1]).sum())
