"""Commands of a campaign: ``init``, ``withdraw``, ``train``, ``predict`` and ``show``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmarket.cli.arguments import ForceFlag, JsonFlag, LedgerOption, MarketOption, QuietFlag

if TYPE_CHECKING:
    from dpmarket.campaign import StatisticFile, TrainingResult
    from dpmarket.cli.render import Voice

QuotesOption = Annotated[
    Path, typer.Option("--quotes", help="The quotes, as 'dpmarket quote' wrote them; - for stdin.")
]


def init(
    market: Annotated[Path, typer.Argument(help="Where to write the market file.")] = Path("market.toml"),
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Write this value: TABLE.KEY=VALUE, such as objective.budget=500. Several times."
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="A public sample, .csv or .parquet: its columns become the features, to be read over.",
        ),
    ] = None,
    statistic: Annotated[
        str | None,
        typer.Option(
            "--statistic",
            help="Ask for a statistic instead of a model: mean, share, histogram, quantile or vector_mean.",
        ),
    ] = None,
    service: Annotated[
        Path | None, typer.Option("--service", help="Make a service's folder and its first operator instead.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="With --service: the operator's name.")] = "operator",
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Write a market file with every key and a comment to each, ready to be edited."""
    if service is not None:
        from dpmarket.cli.serve import init_service

        init_service(service, name, as_json)
        return
    from dpmarket.campaign import market_template, sample_template
    from dpmarket.cli.render import Voice
    from dpmarket.files import write_bytes

    values = dict(map(_setting, settings or ()))
    if statistic is not None:
        if sample is not None:
            raise typer.BadParameter("a public sample is for features: leave out --from or --statistic.")
        values["statistic.kind"] = statistic
    text = market_template(values) if sample is None else sample_template(sample, values)
    write_bytes(market, text.encode(), overwrite=force)
    Voice(as_json, quiet, str(market)).tell(
        "A new market", [("market file", str(market))], {"market": str(market)}, "Edit it before you quote."
    )


def _setting(text: str) -> tuple[str, Any]:
    """Read TABLE.KEY=VALUE; a value that is no number, list or truth value is a text."""
    from dpmarket.errors import InvalidInput
    from dpmarket.files import parse_json

    path, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"expected TABLE.KEY=VALUE, got {text!r}.", param_hint="--set")
    try:
        return path.strip(), parse_json(value)
    except InvalidInput:
        return path.strip(), value


def withdraw(
    quotes: QuotesOption,
    sellers: Annotated[
        list[str] | None, typer.Argument(help="Ids of sellers who withdraw; these or --absent-from.")
    ] = None,
    absent_from: Annotated[
        Path | None,
        typer.Option(
            "--absent-from", help="Withdraw everybody who has no row in this data file; - for stdin."
        ),
    ] = None,
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Take sellers out before training: they are not paid, and nobody else's promise or payment changes."""
    from dpmarket.campaign import withdraw_absent, withdraw_sellers
    from dpmarket.cli.render import Voice

    if bool(sellers) == (absent_from is not None):
        raise typer.BadParameter("name sellers, or a data file with --absent-from.")
    if absent_from is not None:
        _refuse_two_streams(quotes, absent_from)
        count = withdraw_absent(market, quotes, absent_from, ledger=ledger)
    else:
        count = withdraw_sellers(market, quotes, sellers or (), ledger=ledger)
    Voice(as_json, quiet).tell("Withdrawals", [("withdrawn now", str(count))], {"withdrawn": count})


def train(
    data: Annotated[
        Path,
        typer.Argument(help="CSV or Parquet file with ids and records; - for stdin."),
    ],
    quotes: Annotated[
        list[Path],
        typer.Option(
            "--quotes",
            help="The quotes, as 'dpmarket quote' wrote them; several times for one model from many rounds.",
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write what is released to this .json file; - for stdout.")
    ],
    market: MarketOption = Path("market.toml"),
    ledger: LedgerOption = None,
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Spend the promises of quotes: train a model, or release statistics, that keep every one of them.

    The promises are debited in the ledger before a record is read, once: a second run on the same quotes
    hands out the same one. 'dpmarket release' is the same command.
    """
    from dpmarket.campaign import StatisticFile, train_file
    from dpmarket.cli.render import Voice, number

    for one in quotes:
        _refuse_two_streams(one, data)
    voice = Voice(as_json, quiet, str(output))
    with voice.progress() as progress:
        result = train_file(market, quotes, data, output, overwrite=force, progress=progress, ledger=ledger)
    if result.raised_l2 is not None:
        voice.remark(
            "Sellers withdrew: at the market file's penalty the promises of the others could not be kept; "
            f"l2 was raised to {number(result.raised_l2)}, the least that keeps them without slack."
        )
    for name, count in result.clipped.items():
        voice.remark(
            f"For the data holder: {count} values of {name!r} lay outside its bounds and were clipped."
        )
    model = result.model
    if isinstance(model, StatisticFile):
        _tell_statistics(voice, result, model, str(output))
        return
    rows = [
        ("records", f"{model.records:,}"),
        ("features", f"{len(model.features)}"),
        ("total promise", number(result.total_promise, 6)),
        *((name, number(value, 6)) for name, value in model.noise().items()),
    ]
    if model.delta:
        rows.append(("delta beside each epsilon", f"{model.delta:g}"))
    title = (
        "A new model, all promises kept" if result.is_new else "The model that these quotes already bought"
    )
    note = (
        f"The noise rate is the total promise of the {model.records:,} sellers trained on, divided by the "
        "bound on rows, less what the log-determinant term takes. Sellers who withdrew "
        f"({result.withdrawn:,}) are not in it."
    )
    if model.delta:
        note = (
            "Every step of the descent has Gaussian noise. Sellers who withdrew "
            f"({result.withdrawn:,}) are not in it."
        )
    if str(output) != "-":
        note += f"\nThe model is in {output}."
    told = {
        "is_new": result.is_new,
        "total_promise": result.total_promise,
        "withdrawn": result.withdrawn,
        "raised_l2": result.raised_l2,
        "model": model.to_dict(),
    }
    voice.tell(title, rows, told, note)


def _tell_statistics(voice: Voice, result: TrainingResult, found: StatisticFile, output: str) -> None:
    """Say what was released, for people and for machines."""
    from dpmarket.campaign.describing import statistic_rows

    title = "New statistics, all promises kept"
    if not result.is_new:
        title = "The statistics that these quotes already bought"
    told = {
        "is_new": result.is_new,
        "total_promise": result.total_promise,
        "withdrawn": result.withdrawn,
        "statistics": found.to_dict(),
    }
    caution = next(iter(found.releases().values())).caution
    note = caution if output == "-" else f"{caution}\nThe statistics are in {output}."
    voice.tell(title, statistic_rows(found), told, note)


def predict(
    model: Annotated[Path, typer.Argument(help="Model file that 'dpmarket train' wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet file with the features; - for stdin.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Write predictions to this .csv or .parquet file; - for stdout."),
    ] = Path("-"),
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
    force: ForceFlag = False,
) -> None:
    """Predict the label of every row of a table."""
    from dpmarket.campaign import predict_file, read_model
    from dpmarket.cli.render import Voice
    from dpmarket.files import refuse_same

    refuse_same(output, model, data)
    voice = Voice(as_json, quiet, str(output))
    with voice.progress() as progress:
        progress("Predicting", 0.0)
        found = read_model(model)
        done = predict_file(found, data, output, overwrite=force)
    by_label = {str(label): count for label, count in zip(found.labels, done.counts, strict=True)}
    counts: dict[str, Any] = {"rows": done.rows, "positive": done.positive, "clipped_values": done.clipped}
    told = [(repr(found.labels[1]), done.positive)]
    if found.has_many_labels:
        counts = {"rows": done.rows, "predicted": by_label, "clipped_values": done.clipped}
        told = list(zip(map(repr, found.labels), done.counts, strict=True))
    rows = [
        ("rows", f"{done.rows:,}"),
        *((f"predicted {label}", f"{count:,}") for label, count in told),
        ("values clipped to their bounds", f"{done.clipped:,}"),
    ]
    note = None if str(output) == "-" else f"The predictions are in {output}."
    voice.tell("Predictions", rows, counts, note)


def show(
    file: Annotated[
        Path, typer.Argument(help="A quotes file, a model, a market file or a ledger, told by its ending.")
    ],
    as_json: JsonFlag = False,
    quiet: QuietFlag = False,
) -> None:
    """Show what a quotes file, a model, a market file or a ledger holds; nothing about single people."""
    from dpmarket.campaign import describe
    from dpmarket.cli.render import Voice

    description = describe(file)
    Voice(as_json, quiet).tell(
        description.title, description.rows, description.data, description.note or None
    )


def _refuse_two_streams(quotes: Path, data: Path) -> None:
    if str(quotes) == str(data) == "-":
        raise typer.BadParameter("standard input can be the quotes or the data, not both.")
