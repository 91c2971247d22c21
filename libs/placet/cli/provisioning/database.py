"""Roles, the database, migrations."""

from __future__ import annotations

import asyncio
import time

import psycopg
from sqlalchemy.engine import make_url

from placet.cli.provisioning.settings import Settings
from placet.storage import ensure_roles, migrate

PATIENCE_S = 30.0


async def prepare(settings: Settings) -> None:
    """Raises `psycopg.Error` or SQLAlchemy's errors; waits up to 30 s for a server that is just starting."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await ensure_roles(settings.database_admin_url, settings.passwords(), database=settings.database_name)
            break
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)
    await asyncio.to_thread(migrate, role_url(settings, "placet_owner"))


def role_url(settings: Settings, role: str) -> str:
    """The same server, our database, as this role."""
    url = make_url(settings.database_admin_url)
    own = url.set(username=role, password=settings.passwords()[role], database=settings.database_name)
    return own.render_as_string(hide_password=False)
