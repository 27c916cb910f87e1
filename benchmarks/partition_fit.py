"""One pass of a fit to partitions against the same pass over rows in memory, and how many passes a fit takes.

A pass gives the gradient and the Hessian at one point. In processor time, on one thread, in turns.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from _results import Table, at_most, measure, tell
from dpmarket import PrivateLogisticRegression
from dpmarket.learning import Rows, kernels
from dpmarket.learning.row_sums import RowSums
from dpmarket.partitions import fit_partitions, repartition
from dpmarket.partitions.rows import Look, RowSettings, keep_rows, look
from dpmarket.privacy.weights import Shares


def asked():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--repeat", type=int, default=3)
    return parser.parse_args()


ASKED = asked()
ROWS, FEATURES = int(ASKED.rows), ASKED.features
W = np.linspace(-1.0, 1.0, FEATURES + 1)


def records():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(ROWS, FEATURES))
    x /= np.linalg.norm(x, axis=1)[:, None] * (1.0 + 1e-9)
    signs = np.where(x[:, 0] + 0.3 * rng.normal(size=ROWS) > 0.0, 1.0, -1.0)
    return x, signs, rng.uniform(0.1, 2.0, ROWS)


def one_pass():
    x, signs, promised = records()
    shares = Shares(1e-6, 1.0 / float(promised.sum()))
    rows = Rows(x, signs, shares.weights(promised))
    sums = RowSums(rows, lambda function, items: [function(item) for item in items])

    def in_memory():
        total = sums.pairs(kernels.gradient, W)
        for block in rows.blocks():
            for part in sums.over_parts(kernels.hessian, block, W):
                total[0, 0] += part[0, 0]
        return total

    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "rows")
        keep_rows(
            place,
            x,
            signs,
            np.arange(ROWS),
            promised,
            RowSettings(shape=None, clip=False, reserve=1e-6, sample=8192),
        )

        def in_partition():
            return look(Look(place, shares, unit=1.0, constant=True, w=W))

        memory, partition = processor_times([in_memory, in_partition])
    yield Table(
        "One pass over a partition against the same pass in memory",
        ["rows", "features", "memory", "partition", "ratio"],
        [
            [
                f"{ROWS:,}",
                f"{FEATURES}",
                f"{memory:.2f} s",
                f"{partition:.2f} s",
                at_most(1.3, partition / memory),
            ]
        ],
        "In memory the gradient and the Hessian are two looks at the rows, in a partition one.",
    )


def whole_fit():
    x, signs, promised = records()
    rows, few = ROWS // 10, slice(0, ROWS // 10)
    names = [f"x{j}" for j in range(FEATURES)]
    columns = {name: x[few, j] for j, name in enumerate(names)}
    table = pl.DataFrame(
        {
            "id": pl.Series(np.arange(rows)).cast(pl.String),
            "label": (signs[few] > 0.0).astype(np.int64),
            "epsilon": promised[few],
            **columns,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        table.write_parquet(f"{folder}/all.parquet")
        tell("dividing rows by person")
        repartition(f"{folder}/all.parquet", f"{folder}/parts", 4)
        model = PrivateLogisticRegression(classes=(0, 1))
        done = fit_partitions(model, f"{folder}/parts/*.parquet", f"{folder}/work", features=names)
    yield Table(
        "Passes of a fit to four partitions",
        ["rows", "features", "passes"],
        [[f"{rows:,}", f"{FEATURES}", at_most(8, done.passes, ".0f")]],
        "The first pass reads and checks; each of the others is a step of Newton's method or a proof.",
    )


def processor_times(functions):
    """Return the least processor time of each function, in turns; the first run compiles."""
    for function in functions:
        function()
    taken = [[] for _ in functions]
    for _ in range(ASKED.repeat):
        for times, function in zip(taken, functions, strict=True):
            start = time.process_time()
            function()
            times.append(time.process_time() - start)
    return [min(times) for times in taken]


if __name__ == "__main__":
    measure(__file__, one_pass, whole_fit)
