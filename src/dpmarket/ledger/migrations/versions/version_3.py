"""Version 3: one account of money and privacy for many campaigns.

Pages, which may be large, stay where they are. The other tables of version 2 are small: they are made anew
and filled from the old ones. A training of version 2 that ended without a model counts as spent, as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dpmarket.ledger import money, rounds, tables
from dpmarket.ledger.engine import Connection, give_identity, new_id
from dpmarket.ledger.journal import record, record_all
from dpmarket.ledger.pages import digest_of

revision = "version_3"
down_revision = "version_2"


def upgrade() -> None:
    """Turn a file of version 2 into one of version 3, inside one transaction."""
    connection = op.get_bind()
    # The next version will need a copy of today's tables here, because these descriptions go on changing.
    connection.exec_driver_sql("DROP INDEX one_debit_per_round")
    connection.exec_driver_sql("ALTER TABLE page ADD COLUMN digest TEXT")
    tables.metadata.create_all(connection)  # all but round, page and withdrawal, which are there
    give_identity(connection)
    scale = connection.exec_driver_sql("SELECT minor_units FROM round ORDER BY number DESC").scalar()
    campaign = rounds.make_campaign(connection, "", None, int(scale or 100), "").id
    _move_rounds(connection, campaign)
    _give_digests(connection)
    _move_trainings(connection)
    connection.exec_driver_sql("DROP TABLE training")
    numbers = [found.number for found in rounds.rounds_of(connection)]
    _enter_money(connection, campaign, numbers)
    record_all(connection, "round", numbers)
    left = connection.execute(sa.select(tables.withdrawal.c.round).distinct()).scalars()
    record_all(connection, "withdrawals of round", list(left))


def downgrade() -> None:
    """Refuse: the copy that was kept is version 2."""
    raise NotImplementedError


def _move_rounds(connection: Connection, campaign: str) -> None:
    apart = sa.MetaData()
    tables.campaign.to_metadata(apart)
    new = tables.round_.to_metadata(apart, name="new_round")
    new.create(connection)
    rows = connection.exec_driver_sql("SELECT * FROM round ORDER BY number").mappings().all()
    for row in rows:
        identity = new_id()
        values = {**row, "identity": identity, "digest": f"version 2, {identity}", "repetition": 0}
        connection.execute(new.insert().values(campaign=campaign, **values))
    # In this order, and without foreign keys, other tables go on referring to the name.
    connection.exec_driver_sql("DROP TABLE round")
    connection.exec_driver_sql("ALTER TABLE new_round RENAME TO round")


def _give_digests(connection: Connection) -> None:
    page = tables.page.c
    for key in connection.execute(sa.select(page.round, page.kind, page.number)).all():
        where = sa.and_(page.round == key.round, page.kind == key.kind, page.number == key.number)
        content = connection.execute(sa.select(page.content).where(where)).scalar_one()
        connection.execute(tables.page.update().where(where).values(digest=digest_of(bytes(content))))


def _move_trainings(connection: Connection) -> None:
    for row in connection.exec_driver_sql("SELECT * FROM training ORDER BY number").mappings().all():
        identity = new_id()
        state = "lost" if row["state"] == "debited" else row["state"]
        connection.execute(
            tables.release.insert().values(
                id=identity,
                kind="model",
                state=state,
                debited_at=row["debited_at"],
                marked_at=None if state == "returned" else row["debited_at"],
                ended_at=row["ended_at"],
                model=row["model"],
            )
        )
        counts = int(state != "returned")
        connection.execute(tables.debit.insert().values(release=identity, round=row["round"], counts=counts))
        record(connection, "release", identity)


def _enter_money(connection: Connection, campaign: str, numbers: list[int]) -> None:
    """Fund, hold and post what version 2 knew as sums only; withdrawn sellers' money is not held."""
    for number in numbers:
        found = rounds.round_of(connection, number)
        quotes = rounds.quotes_of(connection, number)
        kept = ~rounds.withdrawn_of(connection, number, quotes)
        amount = int(rounds.amounts_of(quotes)[1][kept].sum())
        money.fund(connection, campaign, amount)
        money.hold(connection, campaign, amount, number)
        if found.state != "open":
            money.post_round(connection, number)
