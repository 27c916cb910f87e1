"""One self-contained HTML page about a market: for a board, and for first-time readers.

:mod:`~dpmarket.report.summary` turns everything about a market into a :class:`Summary` that shows no
individual; :func:`render_page` turns that into a page. :func:`report_campaign` does both from the files of a
campaign.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
