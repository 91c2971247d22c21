"""The SQL allow-list: what is refused, what is let through, and what is written instead."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placet.packs.business.sql import SCHEMA, VIEWS
from placet.packs.business.sql_guard import SqlRefusedError, compile_select

LIMIT = 201

ATTACKS = {
    # more than one statement, or another kind
    "second statement": "SELECT 1; DELETE FROM orders",
    "second select": "SELECT order_id FROM orders; SELECT order_id FROM orders",
    "statement in a comment's shadow": "SELECT 1 /* ; */ ; DROP TABLE orders",
    "delete": "DELETE FROM orders",
    "update": "UPDATE orders SET paid_amount = 0",
    "insert": "INSERT INTO refunds VALUES ('acme', 'x')",
    "merge": "MERGE INTO orders USING refunds ON true WHEN MATCHED THEN DELETE",
    "truncate": "TRUNCATE orders",
    "drop": "DROP TABLE orders",
    "alter": "ALTER TABLE orders DISABLE ROW LEVEL SECURITY",
    "create": "CREATE TABLE x AS SELECT order_id FROM orders",
    "grant": "GRANT ALL ON orders TO PUBLIC",
    "copy out": "COPY orders TO PROGRAM 'sh'",
    "copy in": "COPY orders FROM '/etc/passwd'",
    "do block": "DO $$ BEGIN PERFORM 1; END $$",
    "call": "CALL something()",
    "set": "SET placet.tenant = 'globex'",
    "set local role": "SET LOCAL ROLE postgres",
    "reset": "RESET ALL",
    "explain analyze": "EXPLAIN ANALYZE DELETE FROM orders",
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "listen": "LISTEN x",
    "lock": "LOCK TABLE orders",
    "vacuum": "VACUUM",
    "commit": "COMMIT",
    "begin": "BEGIN; SELECT 1",
    "values": "VALUES (1)",
    "show": "SHOW ALL",
    # a SELECT that does more than select
    "select into": "SELECT order_id INTO stolen FROM orders",
    "for update": "SELECT order_id FROM orders FOR UPDATE",
    "data-modifying with": "WITH gone AS (DELETE FROM orders RETURNING order_id) SELECT order_id FROM gone",
    "with": "WITH o AS (SELECT order_id FROM orders) SELECT order_id FROM o",
    "with recursive": "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t",
    # other tables
    "union with users": "SELECT order_id FROM orders UNION SELECT rolname FROM pg_roles",
    "union all": "SELECT order_id FROM orders UNION ALL SELECT usename FROM pg_user",
    "intersect": "SELECT order_id FROM orders INTERSECT SELECT order_id FROM refunds",
    "catalogue": "SELECT * FROM pg_catalog.pg_authid",
    "catalogue by search path": "SELECT rolpassword FROM pg_authid",
    "information schema": "SELECT * FROM information_schema.tables",
    "other schema": "SELECT * FROM knowledge.chunk_bodies",
    "checkpoints": "SELECT * FROM checkpoints.checkpoints",
    "database-qualified": "SELECT * FROM placet.business.orders",
    "table outside the list": "SELECT * FROM business.messages",
    "limits table": "SELECT * FROM refund_limits",
    "quoted table": 'SELECT * FROM "pg_shadow"',
    "unicode-escaped table": 'SELECT * FROM U&"\\0070g_shadow"',
    "table in a subquery": "SELECT (SELECT passwd FROM pg_shadow LIMIT 1) AS x FROM orders",
    "table in where": "SELECT order_id FROM orders WHERE EXISTS (SELECT 1 FROM pg_shadow)",
    "table in in": "SELECT order_id FROM orders WHERE order_id IN (SELECT usename FROM pg_user)",
    "table in order by": "SELECT order_id FROM orders ORDER BY (SELECT 1 FROM pg_shadow)",
    "table in join on": "SELECT o.order_id FROM orders o JOIN refunds r ON EXISTS (SELECT 1 FROM pg_shadow)",
    "table in limit": "SELECT order_id FROM orders LIMIT (SELECT 1 FROM pg_shadow)",
    "table command": "TABLE pg_shadow",
    "lateral": "SELECT x.a FROM orders, LATERAL (SELECT passwd AS a FROM pg_shadow) AS x",
    "only": "SELECT order_id FROM ONLY orders",
    # functions
    "change tenant": "SELECT set_config('placet.tenant', 'globex', true)",
    "change tenant, qualified": "SELECT pg_catalog.set_config('placet.tenant', 'globex', true) FROM orders",
    "change tenant, quoted": "SELECT \"set_config\"('placet.tenant', 'globex', true) FROM orders",
    "read settings": "SELECT current_setting('placet.tenant')",
    "sleep": "SELECT pg_sleep(60)",
    "sleep in where": "SELECT order_id FROM orders WHERE pg_sleep(60) IS NULL",
    "read file": "SELECT pg_read_file('/etc/passwd')",
    "list directory": "SELECT pg_ls_dir('/')",
    "large object": "SELECT lo_import('/etc/passwd')",
    "dblink": "SELECT * FROM dblink('host=evil', 'select 1') AS t(a int)",
    "terminate": "SELECT pg_terminate_backend(1)",
    "advisory lock": "SELECT pg_advisory_lock(1)",
    "notify": "SELECT pg_notify('x', 'y')",
    "query to xml": "SELECT query_to_xml('select * from pg_shadow', true, false, '')",
    "table function": "SELECT * FROM generate_series(1, 1000000000) AS g",
    "set-returning": "SELECT generate_series(1, 1000000000)",
    "unnest": "SELECT unnest(ARRAY[1, 2])",
    "repeat bomb": "SELECT repeat('x', 1000000000)",
    "lpad bomb": "SELECT lpad('x', 1000000000)",
    "regular expression": "SELECT order_id FROM orders WHERE item ~ '(a+)+$'",
    "regexp function": "SELECT regexp_replace(item, 'a', 'b') FROM orders",
    "string_agg": "SELECT string_agg(item, ',') FROM orders",
    "array_agg": "SELECT array_agg(item) FROM orders",
    "json": "SELECT row_to_json(orders) FROM orders",
    "version": "SELECT version()",
    "who": "SELECT current_user",
    "session": "SELECT session_user",
    "inet": "SELECT inet_server_addr()",
    "random": "SELECT random()",
    "nextval": "SELECT nextval('s')",
    "xml": "SELECT xmlparse(document '<a/>')",
    "window": "SELECT row_number() OVER () FROM orders",
    "filter": "SELECT count(*) FILTER (WHERE true) FROM orders",
    "within group": "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY paid_amount) FROM orders",
    # casts, operators, literals, odd corners
    "cast to regclass": "SELECT 'pg_authid'::regclass",
    "cast to json": "SELECT '{}'::json",
    "cast to xml": "SELECT '<a/>'::xml",
    "cast to array": "SELECT '{1}'::int[]",
    "operator by name": "SELECT 1 OPERATOR(pg_catalog.+) 1",
    "escape string": "SELECT E'\\047'",
    "backslash": "SELECT order_id FROM orders WHERE item = 'a\\'",
    "unicode string": "SELECT U&'\\0041'",
    "bit string": "SELECT B'1'",
    "parameter": "SELECT $1",
    "placeholder": "SELECT order_id FROM orders WHERE order_id = %s",
    "named placeholder": "SELECT order_id FROM orders WHERE order_id = :id",
    "null byte": "SELECT 'a\x00b'",
    "right-to-left mark": "SELECT 'a\u202eb'",
    "nul in a name": 'SELECT "a\x00" FROM orders',
    "quote in a name": 'SELECT order_id AS "a""; DROP TABLE orders; --" FROM orders',
    "personal column": "SELECT email FROM customers",
    "personal column, renamed": "SELECT phone AS order_id FROM customers",
    "tenant column": "SELECT tenant FROM orders",
    "system column": "SELECT ctid FROM orders",
    "function as a column": "SELECT o.pg_typeof FROM orders o",
    "function as a column, given a name": "SELECT o.row_to_json AS row_to_json FROM orders o",
    "function on a subquery": "SELECT x.row_to_json AS row_to_json FROM (SELECT order_id FROM orders) x",
    "one name for two things": "SELECT x.f FROM orders x WHERE EXISTS (SELECT 1 FROM (SELECT item AS f FROM orders) x)",
    "limit as an expression": "SELECT order_id FROM orders LIMIT 1 + 1",
    "limit all": "SELECT order_id FROM orders LIMIT ALL",
    "fetch first": "SELECT order_id FROM orders FETCH FIRST 5 ROWS WITH TIES",
    "natural join": "SELECT order_id FROM orders NATURAL JOIN refunds",
    "tablesample": "SELECT order_id FROM orders TABLESAMPLE SYSTEM (1)",
    "grouping sets": "SELECT state FROM orders GROUP BY CUBE (state)",
    "distinct on": "SELECT DISTINCT ON (state) order_id FROM orders",
    "hint": "SELECT /*+ SeqScan(orders) */ * EXCLUDE (state) FROM orders",
    "empty": " ",
    "only a comment": "-- nothing",
    "not sql": "please show me all orders",
    "another dialect": "SELECT TOP 5 * FROM orders",
    "deep nesting": "SELECT " + "(" * 1000 + "1" + ")" * 1000,
    "deep sum": "SELECT 1" + "+1" * 1500,
    "too long": "SELECT order_id FROM orders WHERE order_id = '" + "x" * 4000 + "'",
}


@pytest.mark.spec("G3", "I4")
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_guard_attack_is_refused(attack: str) -> None:
    started = time.monotonic()
    with pytest.raises(SqlRefusedError):
        compile_select(attack, VIEWS, SCHEMA, LIMIT)
    assert time.monotonic() - started < 2


HONEST = {
    "SELECT order_id FROM orders": 'SELECT "order_id" FROM "business_read"."orders" AS "orders" LIMIT 201',
    "select O.State, count(*) N from Business.Orders o group by 1": (
        'SELECT "o"."state", COUNT(*) AS "n" FROM "business_read"."orders" AS "o" GROUP BY 1 LIMIT 201'
    ),
    "SELECT order_id FROM orders -- ; DROP TABLE orders": (
        'SELECT "order_id" FROM "business_read"."orders" AS "orders" LIMIT 201'
    ),
    "SELECT t.total FROM (SELECT sum(r.amount) AS total FROM refunds r) t": (
        'SELECT "t"."total" FROM (SELECT SUM("r"."amount") AS "total" FROM "business_read"."refunds" AS "r") AS "t" '
        "LIMIT 201"
    ),
    "SELECT t.item FROM (SELECT * FROM orders) t": (
        'SELECT "t"."item" FROM (SELECT * FROM "business_read"."orders" AS "orders") AS "t" LIMIT 201'
    ),
    "SELECT order_id FROM orders LIMIT 7 OFFSET 2": (
        'SELECT "order_id" FROM "business_read"."orders" AS "orders" LIMIT 7 OFFSET 2'
    ),
    "SELECT order_id FROM orders LIMIT 100000": (
        'SELECT "order_id" FROM "business_read"."orders" AS "orders" LIMIT 201'
    ),
    "SELECT order_id FROM orders WHERE item = 'it''s; --'": (
        'SELECT "order_id" FROM "business_read"."orders" AS "orders" WHERE "item" = \'it\'\'s; --\' LIMIT 201'
    ),
}


@pytest.mark.parametrize(("sql", "written"), HONEST.items())
def test_guard_honest_query_is_written_over_the_views(sql: str, written: str) -> None:
    assert compile_select(sql, VIEWS, SCHEMA, LIMIT) == written


@pytest.mark.spec("I4")
@given(
    text=st.text(
        alphabet=st.sampled_from("'\"\\;-/*$%:()., \nabEU&x0" + "é上"),
        max_size=30,
    )
)
@settings(max_examples=300, deadline=None)
def test_guard_any_text_in_a_literal_stays_one_literal(text: str) -> None:
    quoted = text.replace("'", "''")
    try:
        written = compile_select(f"SELECT order_id FROM orders WHERE item = '{quoted}'", VIEWS, SCHEMA, LIMIT)
    except SqlRefusedError:
        return
    frame = 'SELECT "order_id" FROM "business_read"."orders" AS "orders" WHERE "item" = \'{}\' LIMIT 201'
    assert written == frame.format(quoted)


WORDS = (
    "SELECT FROM WHERE UNION ALL ; ( ) , * orders refunds pg_shadow order_id 1 'a' = AND JOIN ON USING "
    "WITH AS x SET DELETE INTO pg_sleep LATERAL ORDER BY LIMIT 5 VALUES :: regclass text . o"
)
WRITTEN = frozenset(
    {
        *("SELECT", "DISTINCT", "FROM", "WHERE", "JOIN", "CROSS", "ON", "USING", "AS", "AND", "ORDER", "BY", "LIMIT"),
        *("CAST", "TEXT", "EXISTS"),
    }
)


@pytest.mark.spec("I4")
@given(parts=st.lists(st.sampled_from(WORDS.split()), max_size=14))
@settings(max_examples=400, deadline=None)
def test_guard_any_mix_of_words_is_refused_or_reads_only_views(parts: list[str]) -> None:
    try:
        written = compile_select("SELECT " + " ".join(parts), VIEWS, SCHEMA, LIMIT)
    except SqlRefusedError:
        return
    bare = re.sub(r"\"[^\"]*\"|'(?:[^']|'')*'", "", written)
    assert set(re.findall(r"[A-Za-z_]+", bare)) <= WRITTEN
    assert ";" not in bare
    sources = re.findall(r"(?:FROM|JOIN) (\S+)", written)
    assert all(source.startswith(("(SELECT", '"business_read"."')) for source in sources)
