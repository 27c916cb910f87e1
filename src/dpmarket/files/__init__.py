"""The only room that touches the disk: CSV, Parquet, JSON, TOML, SQLite; atomic writes."""

from dpmarket.files.atomic import (
    atomic_path,
    is_standard_stream,
    private_bytes,
    read_bytes,
    refuse_existing,
    write_bytes,
    write_folder,
)
from dpmarket.files.columns import (
    Finding,
    empty_texts,
    equals_text,
    find,
    number_column,
    numbers_of,
    numbers_or_nan,
    refuse,
    text_column,
)
from dpmarket.files.database import (
    Database,
    damage,
    open_database,
    transaction,
)
from dpmarket.files.documents import (
    read_json,
    read_toml,
    to_json,
    write_json,
)
from dpmarket.files.keys import (
    positions_in,
    repeated,
    same_content,
    sum_by,
)
from dpmarket.files.packages import (
    packaged_file,
    packaged_member,
)
from dpmarket.files.tables import (
    Table,
    csv_columns,
    make_table,
    read_parquet,
    read_table,
    table_from_pages,
    table_kind,
    table_to_pages,
    write_parquet,
    write_table,
)

__all__ = [
    "Database",
    "Finding",
    "Table",
    "atomic_path",
    "csv_columns",
    "damage",
    "empty_texts",
    "equals_text",
    "find",
    "is_standard_stream",
    "make_table",
    "number_column",
    "numbers_of",
    "numbers_or_nan",
    "open_database",
    "packaged_file",
    "packaged_member",
    "positions_in",
    "private_bytes",
    "read_bytes",
    "read_json",
    "read_parquet",
    "read_table",
    "read_toml",
    "refuse",
    "refuse_existing",
    "repeated",
    "same_content",
    "sum_by",
    "table_from_pages",
    "table_kind",
    "table_to_pages",
    "text_column",
    "to_json",
    "transaction",
    "write_bytes",
    "write_folder",
    "write_json",
    "write_parquet",
    "write_table",
]
