"""Run the desk's migrations on the connection that was handed in, in its transaction. Loaded by Alembic."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    transactional_ddl=True,
    version_table="market_version",
)
context.run_migrations()
