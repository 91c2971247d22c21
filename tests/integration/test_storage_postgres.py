"""The embedded server: started, killed, started again; roles, migrations and failures of the real thing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import psycopg
import pytest
from sqlalchemy import exc, text

from placet.contracts.errors import ErrorCode, PlacetError
from placet.storage import AGENT, APPROVAL, EXECUTOR, OWNER, Database, EmbeddedPostgres, EmbeddedPostgresError, migrate
from placet.storage.roles import ensure_roles
from placet.testkit.postgres import PostgresRig


@pytest.fixture(scope="module")
async def spare_postgres() -> AsyncIterator[PostgresRig]:
    directory = Path(tempfile.mkdtemp(prefix="placet-pg-"))
    rig = PostgresRig(directory)
    try:
        await rig.start()
        yield rig
    finally:
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def own_postgres(spare_postgres: PostgresRig) -> AsyncIterator[PostgresRig]:
    """A running server to kill: migrated, without data. It is set up anew after each test, whatever that did to it."""
    yield spare_postgres
    await spare_postgres.server.stop()
    await spare_postgres.server.start()


async def test_start_after_sigkill_of_the_postmaster_recovers_what_was_committed(own_postgres: PostgresRig) -> None:
    database = own_postgres.database(OWNER)
    async with database.transaction() as connection:
        await connection.execute(text("CREATE TABLE placet_meta.survives (n integer)"))
        await connection.execute(text("INSERT INTO placet_meta.survives VALUES (42)"))
    # A backend in the middle of work outlives its postmaster and still holds the shared memory.
    busy = await psycopg.AsyncConnection.connect(own_postgres.url(OWNER), autocommit=True)
    sleeping = asyncio.create_task(busy.execute("SELECT pg_sleep(30)"))
    await asyncio.sleep(0.1)
    port = own_postgres.server.port
    await own_postgres.kill9()
    assert (own_postgres.server.data / "postmaster.pid").exists()
    await own_postgres.server.start()
    with pytest.raises(psycopg.OperationalError):
        await sleeping
    async with database.transaction(read_only=True) as connection:
        found = (await connection.execute(text("SELECT n FROM placet_meta.survives"))).scalar_one()
    assert (found, own_postgres.server.port) == (42, port)


async def test_start_with_a_reused_process_id_in_the_pid_file_succeeds(own_postgres: PostgresRig) -> None:
    await own_postgres.kill9()
    pid_file = own_postgres.server.data / "postmaster.pid"
    lines = pid_file.read_text().split("\n")
    pid_file.write_text("\n".join([str(os.getpid()), *lines[1:]]))
    await own_postgres.server.start()
    await own_postgres.database().ping()


async def test_death_of_the_supervisor_shuts_the_server_down(own_postgres: PostgresRig) -> None:
    await own_postgres.server.stop()
    script = (
        "import asyncio, sys; from pathlib import Path; from placet.storage import EmbeddedPostgres\n"
        "async def main():\n"
        "    server = EmbeddedPostgres(Path(sys.argv[1])); await server.start(); print(server.pid, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())"
    )
    supervisor = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(own_postgres.server.home), stdout=asyncio.subprocess.PIPE
    )
    assert supervisor.stdout is not None
    server = psutil.Process(int(await supervisor.stdout.readline()))
    supervisor.send_signal(signal.SIGKILL)
    await supervisor.wait()
    gone, _ = await asyncio.to_thread(psutil.wait_procs, [server], 10)
    assert gone == [server]
    await own_postgres.server.start()


async def test_prepare_in_a_home_that_runs_already_is_refused(postgres_rig: PostgresRig) -> None:
    with pytest.raises(EmbeddedPostgresError, match="another process"):
        EmbeddedPostgres(postgres_rig.server.home).prepare()


async def test_server_never_runs_as_root(postgres_rig: PostgresRig) -> None:
    assert postgres_rig.server.pid is not None
    assert psutil.Process(postgres_rig.server.pid).uids().effective != 0


async def test_connection_without_the_right_password_is_refused_on_socket_and_tcp(postgres_rig: PostgresRig) -> None:
    server = postgres_rig.server
    for url in (server.url(EXECUTOR, "wrong"), server.tcp_url(EXECUTOR, "wrong"), server.tcp_url("postgres", "")):
        with pytest.raises(psycopg.OperationalError, match="password"):
            await psycopg.AsyncConnection.connect(url)
    right = server.tcp_url(EXECUTOR, postgres_rig.passwords[EXECUTOR])
    await (await psycopg.AsyncConnection.connect(right)).close()


async def test_url_with_a_home_too_deep_for_a_socket_uses_a_short_directory(tmp_path: Path) -> None:
    deep = EmbeddedPostgres(tmp_path / ("d" * 90))
    assert len(str(deep.run)) < 60
    assert EmbeddedPostgres(Path("/srv/placet")).run == Path("/srv/placet/run")


async def test_migrate_raced_and_repeated_applies_each_migration_once(own_postgres: PostgresRig) -> None:
    url = own_postgres.server.url(OWNER, own_postgres.passwords[OWNER], database="raced")
    await ensure_roles(own_postgres.server.admin_url, own_postgres.passwords, database="raced")
    await asyncio.gather(*(asyncio.to_thread(migrate, url) for _ in range(3)))
    await asyncio.to_thread(migrate, url)
    database = Database.open(url)
    try:
        async with database.transaction(read_only=True) as connection:
            versions = (await connection.execute(text("SELECT version_num FROM placet_meta.version"))).scalars().all()
    finally:
        await database.close()
    assert len(versions) == 1


async def test_ensure_roles_without_a_password_is_refused(postgres_rig: PostgresRig) -> None:
    with pytest.raises(ValueError, match=APPROVAL):
        await ensure_roles(postgres_rig.server.admin_url, {**postgres_rig.passwords, APPROVAL: ""})


FORBIDDEN = [
    (EXECUTOR, "SELECT 1 FROM checkpoints.anything"),
    (EXECUTOR, "CREATE TABLE business.mine (n integer)"),
    (EXECUTOR, "CREATE TABLE public.mine (n integer)"),
    (EXECUTOR, "UPDATE business.refunds SET amount = 1"),
    (EXECUTOR, "DELETE FROM business.orders"),
    (EXECUTOR, "INSERT INTO business.orders (tenant, order_id) VALUES ('acme', 'X')"),
    (EXECUTOR, "UPDATE knowledge.chunk_bodies SET body = 'changed'"),
    (EXECUTOR, "DELETE FROM knowledge.versions"),
    (EXECUTOR, "ALTER TABLE knowledge.chunk_bodies DISABLE ROW LEVEL SECURITY"),
    (EXECUTOR, "SET ROLE placet_owner"),
    (EXECUTOR, "COPY business.orders TO PROGRAM 'cat'"),
    (AGENT, "SELECT 1 FROM business.orders"),
    (AGENT, "SELECT 1 FROM knowledge.chunk_bodies"),
    (AGENT, "SELECT 1 FROM knowledge.chunk_terms"),
    (AGENT, "CREATE SCHEMA mine"),
    (APPROVAL, "SELECT 1 FROM business.orders"),
    (APPROVAL, "SELECT 1 FROM knowledge.documents"),
    (APPROVAL, "CREATE TABLE proposals.mine (n integer)"),
]


@pytest.mark.parametrize(("role", "statement"), FORBIDDEN)
async def test_statement_beyond_the_roles_schema_or_rights_is_refused(
    postgres_rig: PostgresRig, role: str, statement: str
) -> None:
    with pytest.raises(exc.ProgrammingError) as caught:
        async with postgres_rig.database(role).transaction() as connection:
            await connection.execute(text(statement))
    assert getattr(caught.value.orig, "sqlstate", None) in ("42501", "3F000")


async def test_agent_role_creates_its_tables_in_its_own_schema_by_default(postgres_rig: PostgresRig) -> None:
    async with postgres_rig.database(AGENT).transaction() as connection:
        await connection.execute(text("CREATE TABLE made_here (n integer)"))
        schema = text("SELECT schemaname FROM pg_tables WHERE tablename = 'made_here'")
        assert (await connection.execute(schema)).scalar_one() == "checkpoints"
        await connection.execute(text("DROP TABLE made_here"))


async def test_transaction_settings_end_with_the_transaction(postgres_rig: PostgresRig) -> None:
    database = Database.open(postgres_rig.url(), pool_size=1, overflow=0)
    shown = text("SELECT current_setting('placet.tenant', true)")
    try:
        async with database.transaction(local={"placet.tenant": "acme"}) as connection:
            assert (await connection.execute(shown)).scalar_one() == "acme"
        async with database.transaction() as connection:
            assert not (await connection.execute(shown)).scalar_one()
    finally:
        await database.close()


async def test_read_only_transaction_refuses_a_write(postgres_rig: PostgresRig) -> None:
    database = postgres_rig.database()
    with pytest.raises(exc.InternalError, match="read-only"):
        async with database.transaction(read_only=True) as connection:
            await connection.execute(text("UPDATE business.orders SET version = version"))
    async with database.transaction() as connection:  # the next user of the connection may write again
        await connection.execute(text("UPDATE business.orders SET version = version WHERE false"))


async def test_statement_that_takes_too_long_is_a_timeout(postgres_rig: PostgresRig) -> None:
    with pytest.raises(PlacetError) as caught:
        async with postgres_rig.database().transaction(local={"statement_timeout": "50"}) as connection:
            await connection.execute(text("SELECT pg_sleep(5)"))
    assert caught.value.code is ErrorCode.TIMEOUT


async def test_pool_without_a_free_connection_is_dependency_unavailable(
    postgres_rig: PostgresRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database.open(postgres_rig.url(), pool_size=1, overflow=0)
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.1)
    try:
        async with database.transaction():
            with pytest.raises(PlacetError) as caught:
                await database.ping()
    finally:
        await database.close()
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


async def test_database_that_is_down_is_dependency_unavailable_and_heals(own_postgres: PostgresRig) -> None:
    database = own_postgres.database()
    await database.ping()
    backends = psutil.Process(own_postgres.server.pid).children()
    await own_postgres.kill9()
    # They notice the death of their postmaster by themselves, and may answer until then.
    await asyncio.to_thread(psutil.wait_procs, backends, 30)
    with pytest.raises(PlacetError) as caught:
        await database.ping()
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    await own_postgres.server.start()
    await database.ping()


async def test_connection_lost_while_committing_a_write_is_outcome_unknown(own_postgres: PostgresRig) -> None:
    database = own_postgres.database(OWNER)

    async def write_while_the_server_dies() -> None:
        async with database.transaction() as connection:
            await connection.execute(text("CREATE TABLE placet_meta.perhaps (n integer)"))
            # The process behind this very connection: the rest of a killed server may live long enough to commit.
            psutil.Process(await connection.scalar(text("SELECT pg_backend_pid()"))).kill()

    with pytest.raises(PlacetError) as caught:
        await write_while_the_server_dies()
    assert caught.value.code is ErrorCode.OUTCOME_UNKNOWN
