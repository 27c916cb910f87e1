"""One self-contained HTML page about a campaign: for a board, and for first-time readers.

:func:`summarise_campaign` turns what the market stores into a :class:`Summary` that shows no individual;
:func:`render_page` turns that into a page. :func:`report_file` does both from the files of a campaign.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
