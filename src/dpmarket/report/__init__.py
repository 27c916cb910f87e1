"""One self-contained HTML page about a campaign: for a board, and for first-time readers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
