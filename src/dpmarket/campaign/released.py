"""What a campaign releases, a model or statistics, as the ledger keeps it and as a file holds it."""

from __future__ import annotations

import json

from dpmarket.campaign.model_file import ModelFile, model_from_json
from dpmarket.campaign.statistic_file import StatisticFile, is_statistic_data, statistics_from_json

Released = ModelFile | StatisticFile


def released_from_json(text: str) -> Released:
    """Make the model or the statistics whose ``to_json`` gave this text."""
    return statistics_from_json(text) if is_statistic_data(json.loads(text)) else model_from_json(text)
