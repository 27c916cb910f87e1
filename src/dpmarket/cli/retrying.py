"""``dpmarket retry``: failed jobs and mails, once more."""

from __future__ import annotations

from typing import Annotated

import typer

from dpmarket.cli.arguments import JsonFlag
from dpmarket.cli.serve import Folder, need_extra
from dpmarket.files import to_json


def retry(
    folder: Folder,
    perhaps_sent: Annotated[
        bool, typer.Option("--perhaps-sent", help="Mails that may have gone out as well: people may get two.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Let a worker do failed jobs and mails once more, after the cause was mended (see 'dpmarket check')."""
    need_extra()
    from dpmarket.campaign import jobs as queue
    from dpmarket.campaign.acts import OWNER
    from dpmarket.web.folder import opened_folder

    with opened_folder(folder) as (market, _):
        jobs = market.run(queue.retry, OWNER, perhaps_sent)
    typer.echo(to_json({"jobs": jobs}) if as_json else f"{jobs} jobs wait for a worker.", nl=not as_json)
