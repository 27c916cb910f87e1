"""A campaign over many files: its reports and records in Parquet files, its commands with ``--dask``."""

import atexit
import functools
import logging

import polars as pl

from distributed import LocalCluster
from outside.driver import FileCampaign


@functools.cache
def scheduler():
    """Return the address of a cluster with one worker, which ends with the tests."""
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it would speak of its end when nobody listens
    cluster = LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=False,
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
        silence_logs=False,
    )
    atexit.register(cluster.close)
    return cluster.scheduler_address


class ManyFiles(FileCampaign):
    """A campaign in a folder whose reports and data are split into some files."""

    def __init__(self, folder, rules, reports, data, files=3):
        super().__init__(folder, rules, reports, data)
        place = {who: k % files for k, who in enumerate(reports["seller"])}
        for name, columns in (("reports", reports), ("by-person", data)):
            (self.folder / name).mkdir()
            table = pl.DataFrame(columns, strict=False).with_columns(
                pl.col(column).cast(pl.String) for column in columns if column not in ("cost",)
            )
            for k in range(files):
                own = [place[who] == k for who in columns["seller"]]
                table.filter(own).write_parquet(self.folder / name / f"{k}.parquet")

    def quote(self, *options, **more):
        return self.run(
            "quote", "reports/*.parquet", "-o", "quotes", "--yes", "--dask", scheduler(), *options, **more
        )

    def train(self, *options, output="model.json", **more):
        return self.run("train", "by-person/*.parquet", "-o", output, "--dask", scheduler(), *options, **more)

    def report(self, *options, **more):
        return self.run("report", "-o", "report.html", *options, **more)

    def quotes(self):
        table = pl.read_parquet(self.folder / "quotes" / "*.parquet")
        return {row["seller"]: row for row in table.iter_rows(named=True)}
