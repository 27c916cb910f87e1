"""Version 2: one campaign's rounds, pages, withdrawals and trainings. The oldest that can be upgraded."""

revision = "version_2"
down_revision = None


def upgrade() -> None:
    """Make nothing: files of version 2 made their tables themselves."""


def downgrade() -> None:
    """Refuse: there is nothing before."""
    raise NotImplementedError
