"""Run the market's migrations on the connection that was handed in, in its transaction. Loaded by Alembic."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
