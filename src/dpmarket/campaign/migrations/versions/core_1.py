"""The one revision of a market's tables: those that :mod:`dpmarket.campaign.schema` describes."""

from alembic import op

from dpmarket.campaign import schema

revision = schema.REVISION
down_revision = None


def upgrade() -> None:
    """Make all tables; fail where one of their names is taken."""
    schema.meta.create_all(op.get_bind(), checkfirst=False)
