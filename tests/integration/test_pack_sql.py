"""`run_readonly_sql` against a real database: tenant, limits, what the database itself refuses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pack_world import ALICE, GLOBEX_ALICE, PackWorld, actor, pack_world, policy_scope
from sqlalchemy import exc, text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.business import BusinessPack
from placet.packs.business.sql import MAX_BYTES, SCHEMA, VIEWS
from placet.storage import READER, Database
from placet.toolkit import PackEnvironment

SQL = "run_readonly_sql"


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[PackWorld]:
    async with pack_world() as opened:
        yield opened


async def ask(world: PackWorld, sql: str, who: Any = ALICE) -> dict[str, Any]:
    found: dict[str, Any] = await world.run(who, SQL, sql=sql)
    return found


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*) FROM orders", [[13]]),
        ("SELECT state, count(*) AS n FROM orders GROUP BY state ORDER BY n DESC, state LIMIT 1", [["delivered", 10]]),
        ("SELECT sum(paid_amount) FROM orders WHERE customer_id = 'C1003'", [[2069]]),
        ("SELECT order_id FROM orders WHERE item LIKE '%:%' OR item ILIKE 'LAPTOP%'", [["A2001"]]),
        (
            "SELECT order_id, s.state FROM orders o JOIN shipments s USING (order_id) WHERE delivered_at IS NULL",
            [["A1009", "in_transit"]],
        ),
        ("SELECT max(t.n) FROM (SELECT customer_id, count(*) AS n FROM orders GROUP BY customer_id) t", [[4]]),
        (
            "SELECT CASE WHEN paid_amount > 1000 THEN 'a' ELSE 'b' END AS c, count(*) AS n FROM orders"
            " GROUP BY 1 ORDER BY n",
            [["a", 2], ["b", 11]],
        ),
        ("SELECT round(avg(paid_amount), 2) FROM orders WHERE order_id IN ('A1001', 'A1003')", [[214.45]]),
        ("SELECT date_trunc('month', created_at)::date AS m, count(*) FROM orders GROUP BY 1", [["2026-11-01", 13]]),
        ("SELECT coalesce(NULL, 'x') || '%s' AS y FROM orders LIMIT 1", [["x%s"]]),
        ("SELECT order_id FROM orders ORDER BY order_id LIMIT 1 OFFSET 1", [["A1002"]]),
        ("SELECT served_by FROM customers WHERE customer_id = 'C3001'", [["grace"]]),
        (
            "SELECT 99999999999999999 * paid_amount AS big FROM orders WHERE order_id = 'A1001'",
            [["29899999999999999701.00"]],
        ),
        (
            "SELECT o.order_id FROM orders o WHERE o.order_id IN (SELECT order_id FROM shipments) ORDER BY 1 LIMIT 1",
            [["A1001"]],
        ),
    ],
)
async def test_sql_honest_query_is_answered(world: PackWorld, sql: str, rows: list[list[Any]]) -> None:
    assert (await ask(world, sql))["rows"] == rows


@pytest.mark.spec("I4")
@pytest.mark.parametrize("view", VIEWS)
async def test_sql_views_offer_exactly_what_is_declared(world: PackWorld, view: str) -> None:
    assert set((await ask(world, f"SELECT * FROM {view}"))["columns"]) == VIEWS[view]


@pytest.mark.spec("I4")
async def test_sql_another_tenant_is_invisible_by_construction(world: PackWorld) -> None:
    query = "SELECT order_id, paid_amount FROM orders WHERE order_id = 'A1001' OR 1 = 1 ORDER BY 1, 2"
    ours, theirs = await ask(world, query), await ask(world, query, GLOBEX_ALICE)
    assert ["A1001", 777] in theirs["rows"]
    assert ["A1001", 777] not in ours["rows"]
    assert len(theirs["rows"]) == 3
    assert (await ask(world, query, actor("alice", tenant="acme' OR 'a'='a")))["rows"] == []


@pytest.mark.spec("I4")
async def test_sql_views_without_a_tenant_show_nothing(world: PackWorld) -> None:
    async with world.rig.database(READER).transaction(read_only=True) as connection:
        for view in VIEWS:
            assert (await connection.execute(text(f"SELECT * FROM {SCHEMA}.{view}"))).all() == []


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    "attack",
    [
        "SELECT email FROM customers",
        "SELECT 1; DELETE FROM orders",
        "SELECT set_config('placet.tenant', 'globex', true)",
        "SELECT order_id FROM orders UNION SELECT rolname FROM pg_roles",
        "UPDATE orders SET paid_amount = 0",
        "SELECT pg_sleep(10)",
    ],
)
async def test_sql_attack_is_refused_before_anybody_is_asked(world: PackWorld, attack: str) -> None:
    for call in (
        world.validate(ALICE, SQL, sql=attack),
        world.preview(ALICE, SQL, sql=attack),
        world.run(ALICE, SQL, sql=attack),
    ):
        with pytest.raises(PlacetError) as caught:
            await call
        assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


@pytest.mark.spec("G3")
@pytest.mark.parametrize(
    "write",
    [
        "UPDATE business.orders SET version = 99",
        "INSERT INTO business.messages VALUES ('acme')",
        "CREATE TABLE t (a int)",
    ],
)
async def test_sql_transaction_is_read_only_even_past_the_guard(world: PackWorld, write: str) -> None:
    """The second wall alone: what would happen if the guard let a write through."""
    with pytest.raises(exc.DBAPIError) as caught:
        async with world.rig.database().transaction(read_only=True) as connection:
            await connection.exec_driver_sql(write)
    assert getattr(caught.value.orig, "sqlstate", "") in {"25006", "42501"}


@pytest.mark.spec("G3")
async def test_sql_slow_query_ends_after_two_seconds_as_timeout(world: PackWorld) -> None:
    product = ", ".join(f"orders o{n}" for n in range(12))
    started = time.monotonic()
    with pytest.raises(PlacetError) as caught:
        await ask(world, f"SELECT count(*) FROM {product}")
    assert caught.value.code is ErrorCode.TIMEOUT
    assert time.monotonic() - started < 4


@pytest.mark.spec("G3")
async def test_sql_more_than_two_hundred_rows_are_cut_and_said_so(world: PackWorld) -> None:
    found = await ask(world, "SELECT a.order_id FROM orders a, orders b, orders c")
    assert (len(found["rows"]), found["truncated"]) == (200, True)
    exact = await ask(world, "SELECT a.order_id FROM orders a, orders b, orders c LIMIT 200")
    assert (len(exact["rows"]), exact["truncated"]) == (200, False)


@pytest.mark.spec("G3")
async def test_sql_too_many_bytes_are_cut_and_said_so(world: PackWorld) -> None:
    wide = " || ".join(["a.item"] * 50)
    found = await ask(world, f"SELECT {', '.join(f'{wide} AS c{n}' for n in range(6))} FROM orders a, orders b")
    assert found["truncated"]
    assert 0 < sum(len(cell) for row in found["rows"] for cell in row) <= MAX_BYTES


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    "broken",
    [
        "SELECT item::int FROM orders",
        "SELECT 1 / (paid_amount - paid_amount) AS x FROM orders",
        "SELECT state FROM orders HAVING true",
        "SELECT item + 1 FROM orders",
        "SELECT item AS a FROM orders WHERE a = 'x'",
    ],
)
async def test_sql_that_the_database_refuses_quotes_no_data(world: PackWorld, broken: str) -> None:
    with pytest.raises(PlacetError) as caught:
        await ask(world, broken)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert "Ceramic" not in caught.value.message + str(caught.value.details)


@pytest.mark.spec("I4")
async def test_sql_views_belong_to_the_executor_alone(world: PackWorld) -> None:
    rows = await world.sql(
        "SELECT DISTINCT grantee FROM information_schema.role_table_grants WHERE table_schema = :schema", schema=SCHEMA
    )
    assert {row[0] for row in rows} == {READER, "placet_owner"}


@pytest.mark.spec("G3", "G6")
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM business.customers",
        "SELECT * FROM knowledge.documents",
        "SELECT * FROM proposals.listing",
        "SELECT * FROM pg_authid",
        "CREATE TABLE business_read.x (a int)",
        "CREATE TEMP TABLE x (a int)",
        "DELETE FROM business_read.orders",
        "UPDATE business.orders SET paid_amount = 0",
        "SELECT pg_read_file('/etc/passwd')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SET ROLE placet_owner",
    ],
)
async def test_role_of_model_queries_can_do_nothing_but_read_its_views(world: PackWorld, statement: str) -> None:
    """Past the allow-list and past the read-only transaction: what is left is the role's own rights."""

    async def attempt() -> None:
        async with world.rig.database(READER).transaction() as connection:
            await connection.execute(text("SET TRANSACTION READ WRITE"))
            await connection.exec_driver_sql(statement)

    with pytest.raises((exc.DBAPIError, PlacetError)) as caught:
        await attempt()
    assert getattr(getattr(caught.value, "orig", None), "sqlstate", "") in ("42501", "25006"), caught.value


@pytest.mark.spec("G3", "G6")
async def test_role_of_model_queries_begins_read_only_unless_it_asks_for_more(world: PackWorld) -> None:
    database = Database.open(world.rig.url(READER))
    try:
        async with database.transaction() as connection:
            assert (await connection.exec_driver_sql("SHOW transaction_read_only")).scalar_one() == "on"
    finally:
        await database.close()


@pytest.mark.spec("T4")
async def test_query_without_a_read_only_connection_is_refused_and_not_run_by_another_role(world: PackWorld) -> None:
    pack = BusinessPack()
    await pack.open(PackEnvironment(world.rig.url(), world.rig.originals, policy_scope))
    try:
        spec = next(tool for tool in pack.tools() if tool.name == SQL)
        with pytest.raises(PlacetError) as caught:
            await spec.handler(world.context(ALICE), spec.args.model_validate({"sql": "SELECT count(*) FROM orders"}))
        assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    finally:
        await pack.close()
