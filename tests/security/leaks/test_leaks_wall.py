"""The second wall around texts has one door, and it does not open to whoever answers searches.

The executor's role reads bodies under row-level security, by the actor that its transaction names. What embeds has to
read all of them: it takes on a role that ordinary transactions have no right of, and holds the lease of a model.
"""

from __future__ import annotations

import pytest
from sqlalchemy import exc, text

from placet.storage import EMBEDDER, EXECUTOR, OWNER
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_base, add_document, new_tenant

pytestmark = pytest.mark.spec("R3", "K2")

_TEXTS = text("SELECT searched FROM knowledge.to_embed('a-new-model', 'me', 1000000)")
# Whatever runs with its owner's rights, and who may call it.
_DOORS = text("""
SELECT p.proname AS name, p.prorettype::regtype::text AS gives, p.proretset AS rows
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE p.prosecdef AND has_function_privilege(:role, p.oid, 'EXECUTE') ORDER BY 1
""")
_LEASE = text("""
INSERT INTO knowledge.embedding_models (model, status, worker, leased_until)
VALUES ('a-new-model', 'building', :worker, now() + interval '1 minute')
ON CONFLICT (model) DO UPDATE SET worker = excluded.worker, leased_until = excluded.leased_until
""")


@pytest.fixture
async def secret(postgres_rig: PostgresRig) -> str:
    """A text that nobody may read and that a model in preparation has no vector of."""
    store, tenant = postgres_rig.knowledge(), new_tenant()
    await add_base(store, tenant, roles=["nobody"])
    await add_document(store, tenant, "doc-1", f"The secret of {tenant}.")
    async with postgres_rig.database(OWNER).transaction() as connection:
        await connection.execute(_LEASE, {"worker": "me"})
    return tenant


async def _forget_the_model(postgres_rig: PostgresRig) -> None:
    async with postgres_rig.database(OWNER).transaction() as connection:
        await connection.execute(text("DELETE FROM knowledge.embedding_models WHERE model = 'a-new-model'"))


async def test_texts_to_embed_are_refused_to_the_role_that_answers_searches(
    postgres_rig: PostgresRig, secret: str
) -> None:
    try:
        for allowed in ({"placet.tenant": secret}, {"placet.tenant": secret, "placet.clearance": "99"}):
            with pytest.raises(exc.ProgrammingError, match="permission denied for function to_embed"):
                async with postgres_rig.database().transaction(local=allowed, read_only=True) as connection:
                    await connection.execute(_TEXTS)
    finally:
        await _forget_the_model(postgres_rig)


async def test_texts_to_embed_are_given_to_the_holder_of_the_lease_alone(
    postgres_rig: PostgresRig, secret: str
) -> None:
    async def given() -> list[str]:
        async with postgres_rig.database().transaction(local={"role": EMBEDDER}, read_only=True) as connection:
            return [row.searched for row in await connection.execute(_TEXTS)]

    try:
        assert any(secret in one for one in await given())
        async with postgres_rig.database(OWNER).transaction() as connection:
            await connection.execute(_LEASE, {"worker": "somebody else"})
        assert await given() == []
    finally:
        await _forget_the_model(postgres_rig)


async def test_no_function_gives_the_executor_more_than_its_own_rights_would_show(postgres_rig: PostgresRig) -> None:
    """Those that run with their owner's rights change things and count; none gives text away."""
    async with postgres_rig.database(OWNER).transaction(read_only=True) as connection:
        doors = (await connection.execute(_DOORS, {"role": EXECUTOR})).all()
        embedder = (await connection.execute(_DOORS, {"role": EMBEDDER})).all()
    assert {(door.name, door.gives) for door in doors if door.gives not in ("void", "trigger", "bigint")} == set()
    assert not any(door.rows for door in doors)
    assert [door.name for door in embedder if door.rows] == ["to_embed"]


async def test_role_that_embeds_reads_no_table_and_nobody_logs_in_as_it(postgres_rig: PostgresRig, secret: str) -> None:
    await _forget_the_model(postgres_rig)
    for table in ("chunk_bodies", "chunk_terms", "documents", "versions", "bases", "uploads"):
        with pytest.raises(exc.ProgrammingError, match="permission denied"):
            async with postgres_rig.database().transaction(local={"role": EMBEDDER}, read_only=True) as connection:
                await connection.execute(text(f"SELECT * FROM knowledge.{table}"))
    async with postgres_rig.database(OWNER).transaction(read_only=True) as connection:
        row = (await connection.execute(text("SELECT rolcanlogin, rolsuper, rolbypassrls FROM pg_roles"
                                             " WHERE rolname = :role"), {"role": EMBEDDER})).one()  # fmt: skip
        inherits = text("SELECT pg_has_role(:executor, :embedder, 'USAGE')")
        inherited = await connection.scalar(inherits, {"executor": EXECUTOR, "embedder": EMBEDDER})
    assert tuple(row) == (False, False, False)
    assert inherited is False
