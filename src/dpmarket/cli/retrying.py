"""``dpmarket service retry`` and ``send-again``: do once more what a worker gave up."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag
from dpmarket.cli.serve import Folder, need_extra
from dpmarket.files import to_json


def retry(folder: Folder, as_json: JsonFlag = False) -> None:
    """Let a worker do once more what failed, after whatever stopped it was mended (see service check)."""
    need_extra()
    from dpmarket.web import setup

    jobs = setup.retry_jobs(folder)
    typer.echo(to_json({"jobs": jobs}) if as_json else f"{jobs} jobs wait for a worker.", nl=not as_json)


def send_again(
    folder: Folder,
    campaign: Annotated[str, typer.Argument(help="The campaign's id.")],
    perhaps_sent: Annotated[
        bool, typer.Option("--perhaps-sent", help="Also mails that may have gone out: people may get two.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Send mails of a campaign that were given up, after whatever stopped them was mended."""
    need_extra()
    from dpmarket.web import setup

    states = ("failed", "unknown") if perhaps_sent else ("failed",)
    mails = setup.send_again(folder, campaign, states)
    typer.echo(to_json({"mails": mails}) if as_json else f"{mails} mails wait to be sent.", nl=not as_json)
