"""Schema migrations, run from inside the program so that a wheel carries its own."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.engine import make_url

META_SCHEMA = "placet_meta"
_LOCK = 0x504C4143_02


def migrate(owner_url: str, revision: str = "head") -> None:
    """Bring the database to `revision`. Blocking: call it in a thread from async code.

    Needs `ensure_roles` first. Idempotent; replicas may race: a session-level advisory lock lets one work at a time.
    Raises SQLAlchemy's errors; a failed migration is rolled back whole.
    """
    engine = create_engine(make_url(owner_url).set(drivername="postgresql+psycopg"), poolclass=NullPool)
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:id)"), {"id": _LOCK})
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {META_SCHEMA}"))
            connection.commit()
            config = Config()
            config.set_main_option("script_location", "placet.storage:migrations")
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            config.attributes["version_schema"] = META_SCHEMA
            command.upgrade(config, revision)
            connection.commit()
    finally:
        engine.dispose()
