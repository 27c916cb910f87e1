"""Turn a round that was trained on into a certificate, from what the ledger keeps."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import numpy as np
import polars as pl

from dpmarket.campaign.market_file import read_market
from dpmarket.campaign.model_file import ModelFile
from dpmarket.campaign.place import opened_existing, place_of
from dpmarket.campaign.publishing import AnnouncedRules, read_rules, refuse_other_rules
from dpmarket.campaign.quotes import read_quotes
from dpmarket.campaign.released import released_from_json
from dpmarket.campaign.frozen_rules import refuse_changed
from dpmarket.campaign.spending import people_of
from dpmarket.campaign.statistic_file import StatisticFile
from dpmarket.campaign.terms import is_one_by_one
from dpmarket.campaign.training import known_round
from dpmarket.certificates import (
    Certificate,
    CertifiedStatistic,
    Money,
    Sellers,
    describe_market,
    describe_model,
    describe_statistics,
    make_certificate,
)
from dpmarket.errors import NotCertifiable
from dpmarket.files import csv_text, write_folder, write_table
from dpmarket.ledger import Connection, Release, Round, reading, releases, rounds
from dpmarket.ledger.rounds import SELLER
from dpmarket.mechanisms.cross_pricing import split
from dpmarket.progress import StageProgress


def certify_quotes(
    market_path: str | os.PathLike[str],
    quotes: str | os.PathLike[str],
    *,
    rules: str | os.PathLike[str] | None = None,
    ledger: str | None = None,
) -> Certificate:
    """Return the certificate of a file of quotes and the model that was trained on it.

    Promises, payments, spent epsilons and the model are the ledger's; the quotes file says which round is
    meant. If the model was trained on several rounds, the certificate is about all of them. Of who withdrew
    before training it is certified what they were quoted, and that nothing is owed.

    Parameters
    ----------
    market_path
        The market file, with the rules that sellers were quoted by.
    quotes
        The file that ``quote`` wrote, unchanged; one of them, if the model was trained on several.
    rules
        The file that ``commit`` wrote and that was published before the reports, if there is one.
    ledger
        A file or an address, in place of the market file's ``ledger.url``.

    Returns
    -------
    Certificate
        With new salts at every call: keep the first one's openings.

    Raises
    ------
    FileProblem
        If a file cannot be used.
    LedgerRefusal
        If no such quotes were given, or the rules changed since.
    NotCertifiable
        If the round has no released model (not trained yet, or spent by a training that ended without one),
        its noise was not secret, it was trained together with rounds that were decided otherwise, or the
        quotes were not made by the published rules, after these.
    """
    market = read_market(market_path)
    quoted = read_quotes(quotes, market.sellers.id_column)
    with (
        opened_existing(place_of(market_path, market, ledger)) as opened,
        reading(opened) as connection,
    ):
        found = _released_round(connection, known_round(connection, quoted))
        refuse_changed(rounds.campaign_of(connection, found.campaign).rules, market)
        return certify_round(connection, found, None if rules is None else read_rules(rules))


def certify_round(connection: Connection, found: Round, rules: AnnouncedRules | None = None) -> Certificate:
    """Return the certificate of a round and the model that was trained on it, with all of its rounds.

    Parameters
    ----------
    found
        One of the rounds that the model was trained on.
    rules
        The published rules that the quotes must have followed, if there are any.

    Raises
    ------
    NotCertifiable
        As for :func:`certify_quotes`.
    """
    kept = releases.released_model(connection, found.number)
    whole = releases.release_with(connection, found.release or "")
    if kept is None or whole is None:
        raise NotCertifiable(_why_no_model(found))
    model = released_from_json(kept)
    if not model.secure_noise:
        raise NotCertifiable("expected a model with secret noise; this one's can be repeated.")
    quoted_at = min(rounds.round_of(connection, number).quoted_at for number in whole.rounds)
    if rules is not None:
        refuse_other_rules(rules, rounds.campaign_of(connection, found.campaign).rules)
        if not datetime.fromisoformat(rules.committed_at) <= datetime.fromisoformat(quoted_at):
            raise NotCertifiable(f"expected rules published before the quotes of {quoted_at}.")
    release = _released(model) if isinstance(model, ModelFile) else _released_statistics(model)
    decision = rounds.decision_of(connection, whole.rounds[0])
    sellers = sellers_of(connection, whole, decision, release)
    currency = rounds.campaign_of(connection, found.campaign).currency
    return make_certificate(
        sellers,
        describe_market(decision),
        release,
        Money(found.minor_units, currency),
        rules=None if rules is None else rules.text,
        quoted_at=None if rules is None else quoted_at,
    )


def sellers_of(
    connection: Connection, whole: Release, decision: Mapping[str, Any], release: Mapping[str, Any]
) -> Sellers:
    """Return what was bought for a release: one line for every person.

    Raises
    ------
    NotCertifiable
        If its rounds were decided by different parameters, or a person was quoted twice.
    """
    spent = [rounds.round_of(connection, number) for number in whole.rounds]
    decisions = [rounds.decision_of(connection, number) for number in whole.rounds]
    apart = len(spent) > 1 and any(not is_one_by_one(one.mechanism) for one in spent)
    if apart or any(other != decisions[0] for other in decisions):
        raise NotCertifiable(
            "this model was trained on rounds that were decided apart, by different parameters: only rounds "
            "of one schedule (quote --online) are certified together."
        )
    people = people_of(connection, whole.rounds)
    sums = {
        name: np.zeros(people.table.height) for name in ("epsilons", "payments", "used", "weights", "gone")
    }
    quotes_of_person = np.zeros(people.table.height)
    for one, (_, _, places) in zip(spent, people.parts, strict=True):
        quotes = rounds.quotes_of(connection, one.number)
        gone = rounds.withdrawn_of(connection, one.number, quotes)
        epsilons, amounts = rounds.amounts_of(quotes)
        quotes_of_person[places] += 1
        for name, values in (
            ("epsilons", epsilons), ("payments", amounts), ("gone", gone),
            ("used", rounds.spent_of(connection, one)),
            ("weights", rounds.weights_of(connection, one.number)),
        ):  # fmt: skip
            sums[name][places] += values
    if quotes_of_person.max() > 1:
        raise NotCertifiable("expected one quote for every seller; some were quoted in several rounds.")
    ids = [str(name) for name in people.table.get_column(SELLER).to_list()]
    weights = sums["weights"]
    if release["family"] == "descent":
        weights = np.rint(weights * release["weight_total"])
    elif release["family"] == "statistics":
        unit = 2.0 ** min(one["unit_exponent"] for one in release["statistics"].values())
        weights = sums["used"] = np.rint(weights / unit) * unit
    return Sellers(
        ids=ids,
        epsilons=sums["epsilons"],
        payments=sums["payments"].astype(np.int64),
        used=np.minimum(sums["used"], sums["epsilons"]),
        weights=weights,
        withdrew=sums["gone"] > 0.0,
        parts=split(ids, bytes.fromhex(decision["salt"])) if "salt" in decision else None,
    )


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
    certificate: Certificate, target: str | os.PathLike[str], *, overwrite: bool = False
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
    write_table(target, table, overwrite=overwrite)
    return len(texts)


def _index(names: list[tuple[str, str]]) -> bytes:
    sellers, files = zip(*names, strict=True)
    return csv_text(pl.DataFrame({"seller": [str(seller) for seller in sellers], "file": files}))


def _released_round(connection: Connection, found: Round) -> Round:
    """Return this round or, if it has no model, the newest of the same reports that has one."""
    same = rounds.rounds_with_digest(connection, found.digest)
    released = [one for one in same if one.state == "released"]
    return found if found.state == "released" or not released else released[-1]


def _why_no_model(found: Round) -> str:
    if found.state == "open":
        return "these quotes have not been used: there is nothing to certify before they are."
    return f"the promises of these quotes were spent at {found.debited_at}, and nothing was released."


def _released_statistics(found: StatisticFile) -> dict[str, Any]:
    stated = {
        name: CertifiedStatistic(tuple(asked.columns), asked.share, asked.released())
        for name, asked in found.statistics.items()
    }
    return describe_statistics(stated, found.rows_per_person)


def _released(model: ModelFile) -> dict[str, Any]:
    return describe_model(
        model.description,
        features=[(feature.name, feature.low, feature.high) for feature in model.features],
        classes=list(model.labels),
        factor=model.shrinkage_correction,
        encoder=model.encoder,
    )
