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
from typing import Any

import numpy as np
import polars as pl

from distributed import Client, LocalCluster, default_client
from dpmarket.errors import FileProblem, InvalidInput

_WORKERS = 2
_WAIT = "20s"
_AT_ONCE = 1 << 23


@dataclass(frozen=True, eq=False)
class Parts:
    """Values on workers, in order.

    >>> with connected("local") as client:
    ...     Parts(client, [1, 2, 3]).map(pow, [2, 3, 4]).get()
    [1, 8, 81]
    """

    client: Client
    futures: list[Any]

    def __len__(self) -> int:
        return len(self.futures)

    def map(self, function: Callable[..., Any], *each: Sequence[Any], **same: Any) -> Parts:
        """Return a function's values for each part, with the part's own elements of ``each``."""
        task = partial(function, **same)
        return Parts(self.client, self.client.map(task, self.futures, *each, pure=False))

    def get(self, function: Callable[..., Any] | None = None, *each: Sequence[Any], **same: Any) -> list[Any]:
        """Return the parts themselves, or a function's values for them, from the workers."""
        if function is not None:
            return self.map(function, *each, **same).get()
        return list(self.client.gather(self.futures))

    def repeated(self) -> int:
        """Return how many of the numbers in sorted parts stand in two places, some millions at a time."""
        found, rounds = 0, 1 + sum(self.get(len)) // _AT_ONCE
        for k in range(rounds):
            ends = np.array([(k << 64) // rounds, ((k + 1) << 64) // rounds - 1], dtype=np.uint64)
            together = np.sort(np.concatenate(self.get(_between, ends=ends)))
            found += int((together[1:] == together[:-1]).sum())
        return found


@contextmanager
def connected(where: str) -> Iterator[Client]:
    """Connect to the scheduler at an address, or start two workers of one thread for ``"local"``."""
    if where == "local":
        cluster = LocalCluster(
            n_workers=_WORKERS, threads_per_worker=1, dashboard_address="127.0.0.1:0", host="127.0.0.1",
            silence_logs=logging.ERROR,
        )  # fmt: skip
        with cluster, Client(cluster) as client:
            yield client
        return
    try:
        client = Client(where, timeout=_WAIT)
    except (OSError, ValueError) as problem:
        raise FileProblem(f"cannot reach a Dask scheduler at {where}") from problem
    with client:
        yield client


def partitions_of(ddf: Any) -> Parts:
    """Return the partitions of a data frame, on the cluster that the caller's program has; or refuse."""
    try:
        client = default_client()
    except ValueError:
        raise InvalidInput("expected a Dask cluster: make a distributed.Client first.") from None
    return Parts(client, client.compute(list(ddf.to_delayed())))


def shared_ids(parts: Parts, ids: Callable[[Any], Any]) -> int:
    """Return how many ids of the parts' values stand in two places, by their sorted hashes under a key."""
    found = 0
    for _ in range(2):  # what collides by chance does not collide under a second key
        found = parts.map(_hashes, ids=ids, key=secrets.randbits(60)).repeated()
        if not found:
            break
    return found


def _hashes(part: Any, ids: Callable[[Any], Any], key: int) -> Any:
    # Equal numbers are one id, whatever type each part has them in.
    numbers = (int(one) if isinstance(one, float) and one.is_integer() else one for one in ids(part))
    return np.sort(pl.Series(list(map(str, numbers)), dtype=pl.String).hash(key).to_numpy())


def _between(numbers: Any, ends: Any) -> Any:
    first, last = np.searchsorted(numbers, ends[0]), np.searchsorted(numbers, ends[1], side="right")
    return numbers[first:last]
