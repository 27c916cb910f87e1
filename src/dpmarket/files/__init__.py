"""The only room that touches the disk: CSV, Parquet, JSON, TOML; atomic writes."""

from dpmarket.files.atomic import atomic_path, read_bytes, write_bytes
from dpmarket.files.documents import read_json, read_toml, to_json, write_json
from dpmarket.files.packages import packaged_file, packaged_member
from dpmarket.files.tables import (
    Table,
    csv_columns,
    number_column,
    read_parquet,
    read_table,
    text_column,
    write_parquet,
    write_table,
)

__all__ = [
    "Table",
    "atomic_path",
    "csv_columns",
    "number_column",
    "packaged_file",
    "packaged_member",
    "read_bytes",
    "read_json",
    "read_parquet",
    "read_table",
    "read_toml",
    "text_column",
    "to_json",
    "write_bytes",
    "write_json",
    "write_parquet",
    "write_table",
]
