"""Read by Alembic only: runs the migrations on the connection that `placet.storage.migrate` opened."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="version",
    version_table_schema=context.config.attributes["version_schema"],
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
