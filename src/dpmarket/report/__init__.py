"""One self-contained HTML page about a market: for a board, and for whoever sees this project first.

:mod:`~dpmarket.report.summary` turns everything about a market into a :class:`Summary` that shows no
individual; :func:`render_page` turns that into a page. :func:`report_campaign` does both from the files of a
campaign.
"""

from dpmarket.report.from_campaign import (
    report_campaign,
)
from dpmarket.report.options import (
    Option,
    budget_options,
)
from dpmarket.report.page import (
    render_page,
)
from dpmarket.report.score import (
    Score,
    score_model,
)
from dpmarket.report.summary import (
    Material,
    Summary,
    summarise,
)

__all__ = [
    "Material",
    "Option",
    "Score",
    "Summary",
    "budget_options",
    "render_page",
    "report_campaign",
    "score_model",
    "summarise",
]
