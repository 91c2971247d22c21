"""Database roles: one owner that migrates, one least-privilege login per service."""

from __future__ import annotations

from collections.abc import Mapping

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

DATABASE = "placet"
OWNER = "placet_owner"
EXECUTOR = "placet_executor"
AGENT = "placet_agent"
APPROVAL = "placet_approval"
READER = "placet_reader"  # for queries that a model wrote: it may read some views, and nothing else
# Nobody's login: what the executor becomes for the one transaction that fetches text to embed. Its ordinary
# transactions have none of this role's rights.
EMBEDDER = "placet_embedder"
ROLES = (OWNER, EXECUTOR, AGENT, APPROVAL, READER)

CHECKPOINTS = "checkpoints"
_LOCK = 0x504C4143_01  # one advisory lock id per job that replicas may race for


async def ensure_roles(admin_url: str, passwords: Mapping[str, str], *, database: str = DATABASE) -> None:
    """Create what is missing: roles, the database, the vector extension, the agent's schema. Sets every password.

    `admin_url` is a superuser, or a managed server's administrator. Idempotent, safe to race.
    Raises ValueError when a role has no password; psycopg.Error when the server refuses.
    """
    missing = [role for role in ROLES if not passwords.get(role)]
    if missing:
        raise ValueError(f"no password for {', '.join(missing)}")
    async with await psycopg.AsyncConnection.connect(admin_url, autocommit=True) as server:
        await server.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        for role in ROLES:
            await _ensure_role(server, role, passwords[role])
        await _ensure_embedder(server)
        await _ensure_database(server, database)
        inside = make_url(admin_url).set(database=database).render_as_string(hide_password=False)
        async with await psycopg.AsyncConnection.connect(inside) as connection:
            await _prepare_database(connection, database)


async def _ensure_role(server: psycopg.AsyncConnection, role: str, password: str) -> None:
    if not await _known(server, role):
        await server.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
    # Hashed here: the plain password reaches neither the server's log nor its statement statistics.
    verifier = server.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    statement = "ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION PASSWORD {}"
    await server.execute(sql.SQL(statement).format(sql.Identifier(role), sql.Literal(verifier)))


async def _ensure_embedder(server: psycopg.AsyncConnection) -> None:
    if not await _known(server, EMBEDDER):
        await server.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(EMBEDDER)))
    statement = "GRANT {} TO {} WITH INHERIT FALSE, SET TRUE"
    await server.execute(sql.SQL(statement).format(sql.Identifier(EMBEDDER), sql.Identifier(EXECUTOR)))


async def _known(server: psycopg.AsyncConnection, role: str) -> bool:
    return await (await server.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,))).fetchone() is not None


async def _ensure_database(server: psycopg.AsyncConnection, database: str) -> None:
    known = await (await server.execute("SELECT 1 FROM pg_database WHERE datname = %s", (database,))).fetchone()
    if known is None:
        names = {"name": sql.Identifier(database), "owner": sql.Identifier(OWNER)}
        await server.execute(sql.SQL("CREATE DATABASE {name} OWNER {owner}").format(**names))


async def _prepare_database(connection: psycopg.AsyncConnection, database: str) -> None:
    name = sql.Identifier(database)
    await connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    for role in ROLES:
        await connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, sql.Identifier(role)))
    await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    agent, schema = sql.Identifier(AGENT), sql.Identifier(CHECKPOINTS)
    # LangGraph's saver creates its own tables, so the agent owns this one schema, and only this.
    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {} AUTHORIZATION {}").format(schema, agent))
    await connection.execute(sql.SQL("ALTER ROLE {} IN DATABASE {} SET search_path = {}").format(agent, name, schema))
    # Rights keep the reader from writing; this keeps it from trying, and from trying for long.
    for setting, value in (("default_transaction_read_only", "on"), ("search_path", ""), ("statement_timeout", "5s")):
        statement = sql.SQL("ALTER ROLE {} IN DATABASE {} SET {} = {}")
        parts = (sql.Identifier(READER), name, sql.Identifier(setting), sql.Literal(value))
        await connection.execute(statement.format(*parts))
