"""Run a campaign from files: a market file, quotes, a privacy ledger, training once, predictions."""

from dpmarket.campaign.accounts import accounts, check_ledger
from dpmarket.campaign.describing import Description, describe
from dpmarket.campaign.ledger import Round, existing_ledger, ledger_path, open_ledger, rounds_of
from dpmarket.campaign.market_file import Market, check_market, read_market
from dpmarket.campaign.model_file import ModelFile, read_model
from dpmarket.campaign.predicting import Predictions, predict_file
from dpmarket.campaign.quoting import Quoting, decide_offline, quote_file, read_quotes
from dpmarket.campaign.template import market_reference, market_template
from dpmarket.campaign.training import TrainingResult, absent_sellers, train_file, withdraw_sellers

__all__ = [
    "Description",
    "Market",
    "ModelFile",
    "Predictions",
    "Quoting",
    "Round",
    "TrainingResult",
    "absent_sellers",
    "accounts",
    "check_ledger",
    "check_market",
    "decide_offline",
    "describe",
    "existing_ledger",
    "ledger_path",
    "market_reference",
    "market_template",
    "open_ledger",
    "predict_file",
    "quote_file",
    "read_market",
    "read_model",
    "read_quotes",
    "rounds_of",
    "train_file",
    "withdraw_sellers",
]
