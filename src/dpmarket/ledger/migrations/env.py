"""Run migrations on the connection that was handed in, inside its transaction. Loaded by Alembic."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
