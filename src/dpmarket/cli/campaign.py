"""Commands of a campaign from files: ``init``, ``quote``, ``withdraw``, ``train``, ``predict``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpmarket import files
from dpmarket.cli.arguments import (
    RULES,
    DaskOption,
    OfCampaign,
    OptionalOutput,
    OutputOption,
    Spoken,
    Written,
    WrittenOfCampaign,
    command,
)

if TYPE_CHECKING:
    from dpmarket.campaign.file_campaign import Training
    from dpmarket.campaign.file_quotes import Quoting
    from dpmarket.cli.render import Voice

_WEAK = 3.0  # exp(3) / (1 + exp(3)) is 95%
_REASONS = {
    "full": "the budget is full",
    "lifetime": "too little epsilon or delta left",
    "excluded": "must not sell",
}


@command
def init(
    given: Written, rules: Path = RULES, *,
    settings: Annotated[list[str] | None, typer.Option("--set")] = None,
    sample: Annotated[Path | None, typer.Option("--from")] = None, service: Path | None = None,
    name: str = "operator",
) -> None:  # fmt: skip
    """Write a rules file with every key and a comment to each, ready to be edited.

    :param rules: Where to write the rules file.
    :param settings: Write this PATH=VALUE, such as objective.budget=500; several times.
    :param sample: A public sample, .csv, .xlsx or .parquet: its columns become the features, to be read over.
    :param service: Make a service's folder and its first operator instead.
    :param name: With --service: the operator's name.
    """
    if service is not None:
        from dpmarket.cli.serve import init_service

        init_service(given.voice(), service, name)
        return
    from dpmarket.campaign.rules.template import rules_template, sample_template

    values = dict(map(_setting, settings or ()))
    taken: dict[str, str] = {}
    if sample is None:
        text = rules_template(values)
    else:
        text, taken = sample_template(sample, values)
    files.write_bytes(rules, text.encode(), overwrite=given.force)
    rows = [("rules file", str(rules)), *((f"column {name!r}", words) for name, words in taken.items())]
    data = {"rules": str(rules), "columns": taken}
    given.voice(rules).tell("New rules", rows, data, "Edit the file before you quote.")


def _setting(text: str) -> tuple[str, Any]:
    """Read PATH=VALUE; a value that is no number, list, table or truth value is a text."""
    import tomllib

    path, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"expected PATH=VALUE, got {text!r}.", param_hint="--set")
    try:
        return path.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return path.strip(), value


@command
def quote(
    given: WrittenOfCampaign, reports: Path, *, output: OptionalOutput = None, dry_run: bool = False,
    yes: bool = False, not_quoted: Path | None = None, letters: Path | None = None,
    letter: Path | None = None, dask: DaskOption = None,
) -> None:  # fmt: skip
    """Quote every seller an epsilon and a payment; a truthful report was everybody's best report.

    Quotes are entered in the database before they are written; for the same reports the same quotes are
    written again. Reported costs are confidential: they are neither printed nor stored. Quotes tell much
    about them: keep them confidential.

    :param reports: CSV or Parquet file with seller ids and reported costs; - for stdin.
    :param output: Write the quotes to this .csv or .parquet file; - for stdout.
    :param dry_run: Say what would be quoted; enter and write nothing.
    :param yes: Buy although the result will probably be no better than a guess.
    :param not_quoted: List sellers who were not quoted, and why, in this file; left out: beside the quotes.
    :param letters: Write each one's offer to this .csv or .parquet file, for a mail merge.
    :param letter: With --letters: their text, with {seller}, {payment}, {epsilon}, {guess}, {campaign}.
    """
    from dpmarket.campaign.file_quotes import quote_file
    from dpmarket.campaign.letters import read_template, write_letters

    if (output is None) != dry_run:
        raise typer.BadParameter("name an output with -o, or ask for a --dry-run.")
    if letters is not None:
        if output is None or str(output) == "-" or dask is not None:
            raise typer.BadParameter("expected -o FILE with --letters, and no --dask.")
        files.refuse_same(letters, given.rules, reports, output)
        files.refuse_unwritable(letters)
        if not given.force:
            files.refuse_existing(letters)
    template = read_template(letter)
    voice = given.voice(output)
    with voice.progress() as progress:
        more: Any = {"confirmed": yes, "progress": progress}
        if dask is not None:
            if output is None or not_quoted is not None or given.force:
                raise typer.BadParameter(
                    "expected -o FOLDER, a new one, and neither --not-quoted nor --force."
                )
            from dpmarket.distributed.purchases import quote_files

            done = quote_files(given.place, reports, output, dask, **more)
        else:
            more |= {"overwrite": given.force, "not_quoted": not_quoted}
            done = quote_file(given.place, reports, output, **more)
    if letters is not None and output is not None:
        write_letters(done.rules, output, letters, template, overwrite=given.force)
    _tell_quotes(voice, done, output, letters)


def _tell_quotes(voice: Voice, done: Quoting, output: Path | None, letters: Path | None) -> None:
    from dpmarket.campaign.rules.decision import budget_in_minor_units, is_cross_priced
    from dpmarket.campaign.rules.meaning import money_text
    from dpmarket.campaign.rules.pricing import budget_words, errors_of

    rules, number, epsilons = done.rules, done.bought_from, done.epsilons
    units, currency = rules.money.minor_units, rules.money.currency
    sampling, noise = errors_of(rules, epsilons) if number and epsilons is not None else (None, None)
    data = {
        "mechanism": rules.campaign.mechanism,
        "sellers": done.sellers,
        "bought_from": number,
        "total_epsilon": done.total_epsilon,
        "sampling_error": sampling,
        "noise_error": noise,
        "total_payment_minor_units": done.total_payment,
        "minor_units": units,
        "currency": currency,
        "is_new": done.is_new,
        "state": done.state,
        "delta": rules.delta,
        "not_quoted": done.left_out,
        "costs_outside_distribution": {"below": done.below, "above": done.above},
        "files": done.files,
    }
    weak = 0 if epsilons is None else int((epsilons > _WEAK).sum())
    if weak:
        voice.remark(
            f"Little protection: {weak:,} sellers are quoted an epsilon above {_WEAK:g}, with which an even "
            "guess about them can become 95% sure."
        )
    budget = budget_in_minor_units(rules)
    limit = "" if budget is None else f"{money_text(budget, units, currency)}, {budget_words(rules)}"
    rows = {
        "mechanism": rules.campaign.mechanism,
        "sellers": f"{done.sellers:,}",
        "bought from": f"{number:,} ({number / max(done.sellers, 1):.1%})",
        "total epsilon": f"{done.total_epsilon:,.6g}",
        "expected error, from noise": "" if noise is None else f"{noise:.4g}",
        "expected error, from sampling": "" if sampling is None else f"{sampling:.4g}",
        "to pay, rounded up": money_text(done.total_payment, units, currency),
        "budget": limit,  # in the words of plan and report
        "costs below and above the distribution": f"{done.below:,} and {done.above:,}",
        **{f"not quoted: {_REASONS[name]}": f"{count:,}" for name, count in done.left_out.items()},
        "delta beside each epsilon": f"{rules.delta:g}" if rules.delta else "",
    }
    is_dry, is_folder = output is None, epsilons is None
    notes = {
        "Nothing was entered: this was a dry run.": is_dry,
        "The real quotes can differ a little: sellers are split into parts by chance.": is_dry
        and is_cross_priced(rules, done.sellers),
        "Everybody was quoted before; the quotes are the same.": not (is_dry or done.is_new),
        "The folder of quotes stays the campaign's: keep it as it was written.": not is_dry and is_folder,
        f"The quotes are in {output}.": not (is_dry or is_folder or str(output) == "-"),
        f"A letter to everybody who is offered something is in {letters}.": letters is not None,
        f"Sellers who were not quoted are listed in {done.not_quoted}.": not is_dry and done.not_quoted,
    }
    title = "Quotes: a truthful report was everybody's best report"
    said = "\n".join(note for note, holds in notes.items() if holds)
    voice.tell(title, [row for row in rows.items() if row[1]], data, said)


@command
def repartition(
    given: Spoken, files: Path, *, output: OutputOption, column: str = "seller",
    number: Annotated[int, typer.Option("--files", min=0)] = 0, dask: str = "local",
) -> None:  # fmt: skip
    """Write many Parquet files anew, all rows of one person into one file.

    :param files: Parquet files: a pattern in quotes, or a folder.
    :param output: Write the files into this new folder.
    :param column: The column of ids.
    :param number: How many files; 0: as many as there are.
    :param dask: The Dask scheduler's address, or local.
    """
    from dpmarket.distributed.repartition import repartition as write_by_person

    made = write_by_person(files, output, column, files=number, where=dask)
    rows = [("files", f"{made:,}"), ("folder", str(output))]
    given.voice(output).tell("Files by person", rows, {"files": made})


@command
def withdraw(
    given: OfCampaign, sellers: list[str] | None = None, *, absent_from: Path | None = None,
    everybody: bool = False,
) -> None:  # fmt: skip
    """Take sellers out before training: they are not paid, and nobody else's epsilon or payment changes.

    :param sellers: Ids of sellers who withdraw; these or --absent-from.
    :param absent_from: Withdraw everybody who has no row in this data file; - for stdin.
    :param everybody: End the campaign before its training: nobody sells.
    """
    from dpmarket.campaign.file_campaign import cancel_campaign, withdraw_absent, withdraw_sellers

    if sum((bool(sellers), absent_from is not None, everybody)) != 1:
        raise typer.BadParameter("name sellers, a data file with --absent-from, or --everybody.")
    if absent_from is not None:
        count = withdraw_absent(given.place, absent_from)
    elif everybody:
        count = cancel_campaign(given.place)
    else:
        count = withdraw_sellers(given.place, sellers or ())
    given.voice().tell("Withdrawals", [("withdrawn now", str(count))], {"withdrawn": count})


@command
def train(given: WrittenOfCampaign, data: Path, *, output: OutputOption, dask: DaskOption = None) -> None:
    """Spend the campaign once: train a model, or release statistics, within everybody's epsilon.

    Epsilons are debited before a record is read. A second run hands out the same model.

    :param data: CSV or Parquet file with ids and records; - for stdin.
    :param output: Write what is released to this .json file; - for stdout.
    """
    from dpmarket.campaign.file_campaign import train_file

    voice = given.voice(output)
    with voice.progress() as progress:
        source = given.place, data, output
        more: Any = {"overwrite": given.force, "progress": progress}
        if dask is None:
            done = train_file(*source, **more)
        else:
            from dpmarket.distributed.purchases import train_files

            done = train_files(*source, dask, **more)
    _tell_training(voice, done, str(output))


def _tell_training(voice: Voice, done: Training, output: str) -> None:
    from dpmarket.campaign.description import statistic_rows
    from dpmarket.campaign.rules.released import StatisticsFile
    from dpmarket.cli.render import number

    if done.raised_l2 is not None:
        voice.remark(
            f"With the epsilons of these sellers training.l2 is too small: {number(done.raised_l2)} was "
            "used, the least penalty that keeps them."
        )
    for name, count in done.clipped.items():
        voice.remark(
            f"For the data holder: values of {name!r} outside its bounds, which were clipped: {count:,}."
        )
    found = done.released
    what = "statistics" if isinstance(found, StatisticsFile) else "model"
    rows = [
        ("people trained on" if what == "model" else "people bought from", f"{found.records:,}"),
        ("total epsilon", number(done.total_epsilon, 6)),
    ]
    note = f"Sellers who withdrew ({done.withdrawn:,}) are not in it."
    if isinstance(found, StatisticsFile):
        rows += statistic_rows(found)[:-1]
        note += "\n" + next(iter(found.releases().values())).caution
    else:
        rows.append(("features", f"{len(found.features)}"))
        rows += [(name, number(value, 6)) for name, value in found.noise().items()]
        if found.delta:
            rows.append(("delta beside each epsilon", f"{found.delta:g}"))
    if output != "-":
        note += f"\nThe {what} is in {output}." if what == "model" else f"\nThe {what} are in {output}."
    told = {
        "is_new": done.is_new,
        "total_epsilon": done.total_epsilon,
        "withdrawn": done.withdrawn,
        "raised_l2": done.raised_l2,
        what: found.to_dict(),
    }
    new = f"{'A new' if what == 'model' else 'New'} {what}, within everybody's epsilon"
    voice.tell(new if done.is_new else f"The {what} that this campaign bought already", rows, told, note)


@command
def predict(
    given: Written, model: Path, data: Path, *, output: OutputOption = Path("-"),
    interval: float | None = None,
) -> None:  # fmt: skip
    """Predict the label, or the number, of every row of a table.

    :param model: Model file that 'dpmarket train' wrote.
    :param data: CSV or Parquet file with the features; - for stdin.
    :param output: Write predictions to this .csv or .parquet file; - for stdout.
    :param interval: Add the ends of an interval for each prediction: how often it holds, such as 0.9. Rough
        if the rules had no training.intervals.
    """
    from dpmarket.campaign.rules.prediction import predict_file
    from dpmarket.campaign.rules.released import read_model
    from dpmarket.cli.render import number

    files.refuse_same(output, model, data)
    voice = given.voice(output)
    with voice.progress() as progress:
        progress("Predicting", 0.0)
        found = read_model(model)
        done = predict_file(found, data, output, interval=interval, overwrite=given.force)
    by_label = dict(zip(map(str, found.labels), done.counts, strict=True))
    rows = [
        ("rows", f"{done.rows:,}"),
        *((f"predicted {label!r}", f"{count:,}") for label, count in by_label.items()),
        *([] if done.mean is None else [("mean of the predictions", number(done.mean))]),
        ("values clipped to their bounds", f"{done.clipped:,}"),
    ]
    told = {"rows": done.rows, "predicted": by_label, "mean": done.mean, "clipped_values": done.clipped}
    note = None if str(output) == "-" else f"The predictions are in {output}."
    voice.tell("Predictions", rows, told, note)
