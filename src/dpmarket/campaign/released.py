"""What a campaign releases, a model or statistics, as the ledger keeps it and as a file holds it."""

from __future__ import annotations

from dpmarket.campaign.model_file import ModelFile, model_from_data
from dpmarket.campaign.statistic_file import StatisticFile, is_statistic_data, statistics_from_data
from dpmarket.ledger.keyed import read_object

Released = ModelFile | StatisticFile


def released_from_json(text: str) -> Released:
    """Make the model or the statistics whose ``to_json`` gave this text.

    Raises
    ------
    FileProblem
        The text in the ledger is neither: it was edited.
    """
    data = read_object(text, "what was released")
    return statistics_from_data(data) if is_statistic_data(data) else model_from_data(data)
