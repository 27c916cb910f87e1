"""The only room that touches the disk: CSV, Parquet, JSON, TOML, SQLite; atomic writes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
