"""Keep one account of money and privacy: rounds, transfers, spending, in SQLite or PostgreSQL."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
