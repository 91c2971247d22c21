"""Pooled connections and transactions, with failures turned into the project's error codes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, cast

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import AsyncAdaptedQueuePool, TextClause, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction, create_async_engine

from placet.contracts.errors import ErrorCode, PlacetError

STATEMENT_TIMEOUT_MS = 10_000
LOCK_TIMEOUT_MS = 5_000
IDLE_TIMEOUT_MS = 30_000
CONNECT_TIMEOUT_S = 5
POOL_TIMEOUT_S = 5.0
_CANCELED = ("57014", "55P03")  # statement_timeout, lock_timeout
_DIALECT = make_url("postgresql+psycopg://").get_dialect()()


def create_engine(url: str, *, pool_size: int = 5, overflow: int = 10, application: str = "placet") -> AsyncEngine:
    """An engine for `postgresql://role:password@host/db` (psycopg 3, async).

    `pool_pre_ping` is on: the embedded server may be restarted at any time, and after that each pooled connection
    would fail one call, which for a write could not be told from a lost answer. The ping costs about 0.1 ms. The
    connection given back last is taken first: it has what it does most prepared and at hand.
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
        pool_use_lifo=True,
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

    @asynccontextmanager
    async def pipeline(self, *, local: Mapping[str, str] | None = None) -> AsyncIterator[Pipeline]:
        """One read-only transaction whose statements are sent without waiting for the rows of those before.

        Half the time of `transaction` for many small statements. Whatever fails in it costs the connection, which may
        be in the middle of anything. Raises like `transaction`; rows may be fetched after its end, too.
        """
        try:
            async with self.engine.connect() as connection:
                await connection.execution_options(postgresql_readonly=True)
                driver = cast("psycopg.AsyncConnection[Any]", (await connection.get_raw_connection()).driver_connection)
                try:
                    async with driver.pipeline():
                        pipeline = Pipeline(driver)
                        if local:
                            await pipeline.send(*_local_settings(local))
                        yield pipeline
                        await driver.commit()
                except BaseException:
                    await connection.invalidate()
                    raise
        except exc.TimeoutError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "No database connection is free.") from error
        except (exc.DBAPIError, psycopg.Error) as error:
            translated = _translated(error)
            if translated is None:
                raise
            raise translated from error

    @property
    def spare(self) -> int:
        """How many more of the pool's lasting connections are not in use now."""
        pool = cast("AsyncAdaptedQueuePool", self.engine.pool)
        return pool.size() - pool.checkedout()

    async def ping(self) -> None:
        """Raises PlacetError when the database does not answer."""
        async with self.transaction(read_only=True) as connection:
            await connection.execute(text("SELECT 1"))

    async def close(self) -> None:
        await self.engine.dispose()


class Pipeline:
    """What `Database.pipeline` gives: for the driver itself, in the SQL of `sqlalchemy.text`."""

    def __init__(self, driver: psycopg.AsyncConnection[Any]) -> None:
        self._driver = driver

    async def send(self, statement: TextClause, parameters: Mapping[str, Any]) -> Answer:
        cursor = self._driver.cursor(row_factory=namedtuple_row)
        return Answer(await cursor.execute(_driver_sql(statement), parameters))


class Answer:
    """Rows that are on their way."""

    def __init__(self, cursor: psycopg.AsyncCursor[Any]) -> None:
        self._cursor = cursor

    async def rows(self) -> Sequence[Any]:
        """All of them, once; columns are attributes."""
        return await self._cursor.fetchall()


@lru_cache(maxsize=1024)
def _driver_sql(statement: TextClause) -> bytes:
    return str(statement.compile(dialect=_DIALECT)).encode()


async def _set_local(connection: AsyncConnection, local: Mapping[str, str]) -> None:
    if local:
        await connection.execute(*_local_settings(local))


def _local_settings(local: Mapping[str, str]) -> tuple[TextClause, dict[str, str]]:
    names = {f"n{i}": name for i, name in enumerate(local)}
    return _set_config(len(local)), names | {f"v{i}": value for i, value in enumerate(local.values())}


@lru_cache(maxsize=64)
def _set_config(count: int) -> TextClause:
    return text(f"SELECT {', '.join(f'set_config(:n{i}, :v{i}, true) AS s{i}' for i in range(count))}")


async def _commit(work: AsyncTransaction, read_only: bool) -> None:
    try:
        await work.commit()
    except exc.DBAPIError as error:
        if error.connection_invalidated and not read_only:
            raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "The database was lost while committing.") from error
        raise


def _translated(error: exc.DBAPIError | psycopg.Error) -> PlacetError | None:
    cause = error.orig if isinstance(error, exc.DBAPIError) else error
    if getattr(cause, "sqlstate", None) in _CANCELED:
        return PlacetError(ErrorCode.TIMEOUT, "The database took too long.")
    lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
    if lost or isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError):
        return PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The database is not available.")
    return None
