"""Turn a round that was trained on into a certificate, from what the ledger keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import polars as pl

from dpmarket.campaign.ledger import (
    EPSILON,
    PAYMENT,
    SELLER,
    Round,
    existing_ledger,
    ledger_path,
    matching_rounds,
    parameters_of,
    released_model,
    spent_of,
    weights_of,
    withdrawn_of,
)
from dpmarket.campaign.market_file import read_market
from dpmarket.campaign.model_file import ModelFile, model_from_json
from dpmarket.campaign.quoting import read_quotes
from dpmarket.campaign.training import known_round
from dpmarket.certificates import Certificate, Purchase, ReleasedModel, certify_purchase
from dpmarket.errors import NotCertifiable
from dpmarket.files import Database, write_folder, write_table
from dpmarket.progress import StageProgress


def certify_quotes(market_path: str | os.PathLike[str], quotes: str | os.PathLike[str]) -> Certificate:
    """Return the certificate of a file of quotes and the model that was trained on it.

    Promises, payments, spent epsilons and the model are the ledger's; the quotes file says which round is
    meant. Who withdrew before training is certified with nothing promised and nothing paid.

    Parameters
    ----------
    market_path
        The market file; the ledger lies beside it.
    quotes
        The file that ``quote`` wrote, unchanged.

    Returns
    -------
    Certificate
        With new salts at every call: keep the first one's openings.

    Raises
    ------
    FileProblem
        If a file cannot be used.
    LedgerRefusal
        If no such quotes were given.
    NotCertifiable
        If the round has no released model (not trained yet, or spent by a training that ended without one),
        or its noise was not secret.
    """
    market = read_market(market_path)
    quoted = read_quotes(quotes, market.sellers.id_column)
    with existing_ledger(ledger_path(market_path)) as ledger:
        entered = _released_round(ledger, quoted) or known_round(ledger, quoted)
        kept = released_model(ledger, entered.number)
        if kept is None:
            raise NotCertifiable(_why_no_model(entered))
        model = model_from_json(kept)
        if not model.secure_noise:
            raise NotCertifiable("expected a model with secret noise; this one's can be repeated.")
        gone = withdrawn_of(ledger, entered.number, quoted)
        payments = quoted.get_column(PAYMENT).to_numpy().astype(np.float64)
        purchase = Purchase(
            mechanism=entered.mechanism,
            parameters=parameters_of(ledger, entered.number),
            seller_ids=np.array(quoted.get_column(SELLER).to_list(), dtype=np.str_),
            promises=np.where(gone, 0.0, quoted.get_column(EPSILON).to_numpy()),
            payments=np.where(gone, 0.0, payments),
            minor_units=entered.minor_units,
            spent=spent_of(ledger, entered),
            weights=weights_of(ledger, entered.number),
            withdrawn=int(gone.sum()),
        )
    return certify_purchase(purchase, _released(model))


def write_receipts_folder(
    certificate: Certificate,
    folder: str | os.PathLike[str],
    progress: StageProgress = lambda what, share: None,
) -> int:
    """Write one receipt per seller, and an index of which file is whose, into a new folder; return how many.

    Ids are not used as file names: they may be confidential, and need not be names of files. The folder
    appears when everything is in it.

    Parameters
    ----------
    certificate
        With its lines, as :func:`certify_quotes` gives it.
    folder
        A new folder.
    progress
        Called with what is being done and the share that is done.

    Raises
    ------
    FileProblem
        If the folder exists or cannot be written.
    """
    total = len(certificate.lines)

    def files() -> Iterator[tuple[str, bytes]]:
        names = []
        for k, (seller, receipt) in enumerate(certificate.receipts()):
            names.append((seller, f"receipt-{k + 1:07d}.json"))
            yield names[-1][1], receipt
            if k % 1_000 == 0:
                progress("Writing receipts", k / total)
        yield "index.csv", _index(names)

    write_folder(folder, files())
    return total


def write_receipts_table(
    certificate: Certificate, target: str | os.PathLike[str], overwrite: bool = False
) -> int:
    """Write all receipts to one .csv or .parquet file, columns seller and receipt; return how many.

    Parameters
    ----------
    certificate
        With its lines, as :func:`certify_quotes` gives it.
    target
        The file; only its owner may read it.
    overwrite
        Whether an existing file is replaced; without it, it is refused.

    Raises
    ------
    FileProblem
        If the file exists, has another ending or cannot be written.
    """
    sellers, receipts = zip(*certificate.receipts(), strict=True)
    texts = [receipt.decode() for receipt in receipts]
    table = pl.DataFrame({"seller": [str(seller) for seller in sellers], "receipt": texts})
    write_table(target, table, overwrite)
    return len(texts)


def _index(names: list[tuple[object, str]]) -> bytes:
    rows = ["seller,file"]
    for seller, file in names:
        quoted = str(seller).replace('"', '""')
        rows.append(f'"{quoted}",{file}')
    return ("\n".join(rows) + "\n").encode()


def _released_round(ledger: Database, quotes: pl.DataFrame) -> Round | None:
    """Return the newest round with exactly these quotes that has a model, if there is one."""
    return next((entered for entered in matching_rounds(ledger, quotes) if entered.state == "released"), None)


def _why_no_model(entered: Round) -> str:
    if entered.state == "open":
        return "these quotes have not been trained on: there is no model to certify."
    return f"the promises of these quotes were spent at {entered.debited_at}, and no model was released."


def _released(model: ModelFile) -> ReleasedModel:
    return ReleasedModel(
        coef_grid=tuple(model.coef_grid),
        grid=model.grid,
        stretch=model.stretch,
        classes=(model.labels[0], model.labels[1]),
        fit_intercept=True,
        intercept_scaling=model.intercept_scaling,
        clip=False,
        l2=model.l2,
        noise_rate=model.noise_rate,
        row_bound=model.row_bound,
        rows_per_person=model.rows_per_person,
        gradient_bound=model.gradient_bound,
        noise_accuracy=model.noise_accuracy,
        numerical_epsilon=model.numerical_epsilon,
    )
