"""Statements sent without waiting for each other's rows: in one transaction, and never a danger to the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.storage import Database
from placet.testkit.postgres import PostgresRig

NUMBER = text("SELECT CAST(:n AS integer) AS number, current_setting('placet.tenant', true) AS tenant")
SLEEP = text("SELECT pg_sleep(60)")
PID = text("SELECT pg_backend_pid() AS pid")


@pytest.fixture
async def single(postgres_rig: PostgresRig) -> AsyncIterator[Database]:
    """One connection, so that whoever comes next gets the one that was used before."""
    database = Database.open(postgres_rig.url(), pool_size=1, overflow=0)
    yield database
    await database.close()


async def test_rows_come_in_the_order_asked_for_even_after_the_end(single: Database) -> None:
    async with single.pipeline(local={"placet.tenant": "acme"}) as pipeline:
        early = [await pipeline.send(NUMBER, {"n": n}) for n in range(3)]
        assert [row.number for row in await early[1].rows()] == [1]
        late = await pipeline.send(NUMBER, {"n": 7})
    assert [(row.number, row.tenant) for row in await late.rows()] == [(7, "acme")]
    assert [row.number for answer in (early[0], early[2]) for row in await answer.rows()] == [0, 2]


async def test_pipeline_settings_end_with_it(single: Database) -> None:
    async with single.pipeline(local={"placet.tenant": "acme"}) as pipeline:
        await pipeline.send(NUMBER, {"n": 1})
    async with single.transaction() as connection:
        assert not (await connection.execute(NUMBER, {"n": 1})).one().tenant


async def test_pipeline_refuses_a_write_and_the_next_transaction_may_write(single: Database) -> None:
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        async with single.pipeline() as pipeline:
            await pipeline.send(text("UPDATE business.orders SET version = version"), {})
    async with single.pipeline() as pipeline:
        await pipeline.send(NUMBER, {"n": 1})
    async with single.transaction() as connection:
        await connection.execute(text("UPDATE business.orders SET version = version WHERE false"))


async def test_pipelined_statement_that_takes_too_long_is_a_timeout(single: Database) -> None:
    async def too_long() -> None:
        async with single.pipeline(local={"statement_timeout": "50"}) as pipeline:
            await pipeline.send(SLEEP, {})
            await (await pipeline.send(NUMBER, {"n": 1})).rows()

    with pytest.raises(PlacetError) as caught:
        await too_long()
    assert caught.value.code is ErrorCode.TIMEOUT
    await single.ping()


async def test_connection_lost_in_a_pipeline_is_dependency_unavailable_and_heals(
    postgres_rig: PostgresRig, single: Database
) -> None:
    async def losing() -> None:
        async with single.pipeline() as pipeline:
            ((pid,),) = await (await pipeline.send(PID, {})).rows()
            async with postgres_rig.database().transaction() as other:
                await other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": pid})
            await (await pipeline.send(NUMBER, {"n": 1})).rows()

    with pytest.raises(PlacetError) as caught:
        await losing()
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    await single.ping()


async def test_pipeline_abandoned_in_the_middle_leaves_no_rows_for_the_next_one(single: Database) -> None:
    sent = asyncio.Event()

    async def abandoned() -> None:
        async with single.pipeline() as pipeline:
            await pipeline.send(NUMBER, {"n": 1})
            answer = await pipeline.send(SLEEP, {})
            sent.set()
            await answer.rows()

    task = asyncio.create_task(abandoned())
    await sent.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with single.pipeline() as pipeline:
        answer = await pipeline.send(NUMBER, {"n": 2})
    assert [row.number for row in await answer.rows()] == [2]
