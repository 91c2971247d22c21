"""LangGraph's PostgreSQL saver on a pool, without its global lock, and silent once the lease is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.base import SerializerProtocol
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from services.agent.adapters.checkpoints.encryption import encrypted
from services.agent.adapters.checkpoints.guard import GuardedSerializer

SCHEMA = "checkpoints"
_SETUP_LOCK = 0x504C4143_11
_SETUP_WAIT_S = 60.0

Pool = AsyncConnectionPool[AsyncConnection[DictRow]]


class _Open(asyncio.Lock):
    """Always free. The saver's own lock serves a single connection; with a pool each statement has one of its own,
    and the lock would let one statement of the whole process run at a time."""

    async def acquire(self) -> Literal[True]:
        return True

    def release(self) -> None:
        return


class PooledSaver(AsyncPostgresSaver):
    """`check` is called before every write and raises when this worker must not write any more."""

    def __init__(self, pool: Pool, check: Callable[[], None], serializer: SerializerProtocol) -> None:
        super().__init__(pool, serde=serializer)
        self.lock = _Open()
        self._check = check

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self._check()
        return await super().aput(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._check()
        await super().aput_writes(config, writes, task_id, task_path)


def _always() -> None:
    return


class Checkpoints:
    """The pool, and savers on it: one per drive, which costs nothing."""

    def __init__(self, url: str, size: int, key_file: Path | None = None) -> None:
        self._serializer = encrypted(GuardedSerializer(), key_file)
        self._pool: Pool = AsyncConnectionPool(
            url,
            connection_class=AsyncConnection[DictRow],
            min_size=1,
            max_size=size,
            timeout=10,
            open=False,
            kwargs={
                "autocommit": True,
                "prepare_threshold": 0,
                "row_factory": dict_row,
                "connect_timeout": 5,
                "application_name": "agent",
                "options": f"-c search_path={SCHEMA} -c statement_timeout=10000",
            },
        )

    async def open(self) -> None:
        """Connect and bring LangGraph's tables up to date. Raises `TimeoutError`, `psycopg.Error`."""
        await self._pool.open(wait=True, timeout=30)
        async with self._pool.connection() as connection:
            await _locked(connection)
            try:
                await AsyncPostgresSaver(connection).setup()
            finally:
                await connection.execute("SELECT pg_advisory_unlock(%s)", (_SETUP_LOCK,))

    def saver(self, check: Callable[[], None] = _always) -> PooledSaver:
        return PooledSaver(self._pool, check, self._serializer)

    async def heal(self) -> None:
        """Throw away connections that a restarted server has left dead. Asked for after a failure rather than before
        every statement, which would cost a run as much as a third of its time in the database."""
        await self._pool.check()

    async def ready(self) -> bool:
        try:
            async with self._pool.connection(timeout=1.5) as connection:
                await connection.execute("SELECT 1")
        except (psycopg.Error, PoolTimeout):
            return False
        return True

    async def close(self) -> None:
        await self._pool.close()


async def _locked(connection: AsyncConnection[DictRow]) -> None:
    """One replica at a time sets up. By polling: a waiting `pg_advisory_lock` would be a transaction, and building
    an index concurrently waits for those."""
    async with asyncio.timeout(_SETUP_WAIT_S):
        while True:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s) AS mine", (_SETUP_LOCK,))
            row = await cursor.fetchone()
            if row and row["mine"]:
                return
            await asyncio.sleep(0.2)
