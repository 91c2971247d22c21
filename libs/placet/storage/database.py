"""Pooled connections and transactions, with failures turned into the project's error codes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from sqlalchemy import exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction, create_async_engine

from placet.contracts.errors import ErrorCode, PlacetError

STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 5_000
IDLE_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_S = 5
POOL_TIMEOUT_S = 5.0
_CANCELED = ("57014", "55P03")  # statement_timeout, lock_timeout


def create_engine(url: str, *, pool_size: int = 5, overflow: int = 10, application: str = "placet") -> AsyncEngine:
    """An engine for `postgresql://role:password@host/db` (psycopg 3, async).

    `pool_pre_ping` is on: the embedded server may be restarted at any time, and after that each pooled connection
    would fail one call, which for a write could not be told from a lost answer. The ping costs about 0.1 ms.
    """
    timeouts = {
        "statement_timeout": STATEMENT_TIMEOUT_MS,
        "lock_timeout": LOCK_TIMEOUT_MS,
        "idle_in_transaction_session_timeout": IDLE_TIMEOUT_MS,
    }
    return create_async_engine(
        make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=pool_size,
        max_overflow=overflow,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
        pool_recycle=1800,
        connect_args={
            "connect_timeout": CONNECT_TIMEOUT_S,
            "application_name": application,
            "options": " ".join(f"-c {name}={value}" for name, value in timeouts.items()),
        },
    )


class Database:
    """What rooms that store something are given. One instance per process and role."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.engine = engine

    @classmethod
    def open(cls, url: str, *, pool_size: int = 5, overflow: int = 10, application: str = "placet") -> Database:
        return cls(create_engine(url, pool_size=pool_size, overflow=overflow, application=application))

    @asynccontextmanager
    async def transaction(
        self, *, local: Mapping[str, str] | None = None, read_only: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        """One transaction; `local` are settings that end with it (row-level security reads them).

        Raises PlacetError: `dependency_unavailable` (no connection, pool exhausted, server gone), `timeout`
        (statement or lock), `outcome_unknown` (the connection was lost while a write was being committed).
        Other database errors, such as a violated constraint, pass through as SQLAlchemy raises them.
        """
        try:
            async with self.engine.connect() as connection:
                if read_only:
                    await connection.execution_options(postgresql_readonly=True)
                work = await connection.begin()
                await _set_local(connection, local or {})
                yield connection
                await _commit(work, read_only)
        except exc.TimeoutError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "No database connection is free.") from error
        except exc.DBAPIError as error:
            translated = _translated(error)
            if translated is None:
                raise
            raise translated from error

    async def ping(self) -> None:
        """Raises PlacetError when the database does not answer."""
        async with self.transaction(read_only=True) as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        await self.engine.dispose()


async def _set_local(connection: AsyncConnection, local: Mapping[str, str]) -> None:
    if local:
        calls = ", ".join(f"set_config(:n{i}, :v{i}, true)" for i in range(len(local)))
        names = {f"n{i}": name for i, name in enumerate(local)}
        values = {f"v{i}": value for i, value in enumerate(local.values())}
        await connection.execute(text(f"SELECT {calls}"), names | values)


async def _commit(work: AsyncTransaction, read_only: bool) -> None:
    try:
        await work.commit()
    except exc.DBAPIError as error:
        if error.connection_invalidated and not read_only:
            raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "The database was lost while committing.") from error
        raise


def _translated(error: exc.DBAPIError) -> PlacetError | None:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _CANCELED:
        return PlacetError(ErrorCode.TIMEOUT, "The database took too long.")
    if isinstance(error, exc.OperationalError | exc.InterfaceError) or error.connection_invalidated:
        return PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The database is not available.")
    return None
