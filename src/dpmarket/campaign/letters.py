"""Letters to sellers: each one's offer as a row for a mail merge, and as a text made from a template."""

import string
from pathlib import Path

import polars as pl

from dpmarket.campaign.place import Source
from dpmarket.campaign.rules.meaning import epsilon_shown, guess_percent, money_text
from dpmarket.campaign.rules.rules_file import Rules
from dpmarket.errors import FileProblem
from dpmarket.files import numbers_of, read_bytes, read_table, write_table

FIELDS = ("seller", "campaign", "payment", "epsilon", "guess")
"""What a template may name in braces; ``guess`` is the highest chance, in percent, of guessing a yes-or-no
answer of the seller's."""
TEMPLATE = """\
Dear {seller},

thank you for naming your price. For your record in the campaign "{campaign}" we offer you {payment}.

What it means for you: somebody who sees the result and wants to guess a yes-or-no answer of yours is right in
at most {guess} of 100 cases. Without the result it is 50 of 100. (Your epsilon is {epsilon}.)

You will be paid after the result has been made. Until then you can withdraw, and nothing of yours is used.
"""


def read_template(source: Source | None) -> str:
    """Return a template from a file, None: :data:`TEMPLATE`; one with other words in braces is refused."""
    if source is None:
        return TEMPLATE
    try:
        text = read_bytes(Path(source)).decode("utf-8-sig")
        named = [field for _, *field in string.Formatter().parse(text) if field[0] is not None]
    except (UnicodeDecodeError, ValueError):
        raise FileProblem(f"cannot use {source}: expected text in UTF-8 with pairs of braces only.") from None
    if any(name not in FIELDS or form or change for name, form, change in named):
        expected = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise FileProblem(f"cannot use {source}: expected no words in braces but {expected}.")
    return text


def write_letters(
    rules: Rules, quotes: Source, output: Source, template: str, *, overwrite: bool = False
) -> int:
    """Write a letter for everybody in a file of quotes who is offered something; return how many."""
    column, figures = rules.sellers.id_column, ["epsilon", "payment_minor_units"]
    table = read_table(quotes, [column, *figures], [column], figures)
    epsilons, amounts = (numbers_of(table, name)[0].tolist() for name in figures)
    rows = [
        {
            "seller": seller,
            "campaign": rules.campaign.name,
            "payment": money_text(round(amount), rules.money.minor_units, rules.money.currency),
            "epsilon": f"{epsilon_shown(epsilon):g}",
            "guess": f"{guess_percent(epsilon, rules.delta)}",
        }
        for seller, epsilon, amount in zip(table.get_column(column), epsilons, amounts, strict=True)
        if epsilon > 0.0
    ]
    letters = [row | {"letter": template.format_map(row)} for row in rows]
    write_table(output, pl.DataFrame(letters, schema=[*FIELDS, "letter"], orient="row"), overwrite=overwrite)
    return len(rows)
