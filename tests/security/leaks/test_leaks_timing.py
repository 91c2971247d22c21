"""Time tells nothing: forbidden and absent take equally long. Judged by how well one can be told from the other, which
a busy machine does not change, never by how long anything takes.

Row R5, which the specification names without words, is read here as: what one may not read leaves no trace, neither in
counts, order and scores nor in time.
"""

from __future__ import annotations

import pytest

from placet.knowledge.embedders import NoEmbedder
from placet.knowledge.errors import NotFound
from placet.knowledge.models import DocumentInfo, KnowledgeScope
from placet.knowledge.store import KnowledgeStore
from placet.testkit.postgres import PostgresRig
from tests.integration.knowledge_world import add_base, add_document, new_tenant
from tests.security.leaks.two_samples import separation

CALLS = 2_000
FEWER_CALLS = 1_000  # where one takes longer; chance strays by 0.018 then
FEWEST_CALLS = 600  # ... and by 0.024 then
INDISTINGUISHABLE = 0.1  # from 0.5; chance strays by 0.013


@pytest.fixture(scope="module")
async def reader(postgres_rig: PostgresRig) -> KnowledgeScope:
    """Somebody who reads 40 passages of a company; 200 more, about kestrels, are not theirs."""
    store, tenant = postgres_rig.knowledge(NoEmbedder()), new_tenant()
    await add_base(store, tenant, "open", roles=["employee"])
    await add_base(store, tenant, "hidden", roles=["nobody"])
    for number in range(40):
        await add_document(store, tenant, f"doc-{number}", f"The gate code of house {number}.", base_id="open")
    sections = "\n\n".join(f"# Part {number}\n\nKestrel plan {number}, secret kestrel." for number in range(200))
    await add_document(store, tenant, "doc-secret", sections, base_id="hidden")
    return KnowledgeScope(tenant, "rita", frozenset({"employee"}))


async def _refused(store: KnowledgeStore, reader: KnowledgeScope, document_id: str) -> None:
    with pytest.raises(NotFound):
        await store.get_document(reader, document_id)


@pytest.mark.spec("K2", "R5", "I3", "T5")
@pytest.mark.timeout(300)
async def test_forbidden_document_takes_as_long_as_an_absent_one(
    postgres_rig: PostgresRig, reader: KnowledgeScope
) -> None:
    store = postgres_rig.knowledge(NoEmbedder())
    told = await separation(
        lambda: _refused(store, reader, "doc-secret"), lambda: _refused(store, reader, "doc-absent"), CALLS
    )
    assert abs(told - 0.5) < INDISTINGUISHABLE


@pytest.mark.spec("K2", "R5", "W6")
@pytest.mark.timeout(300)
async def test_forbidden_citation_takes_as_long_as_an_invented_one(
    postgres_rig: PostgresRig, reader: KnowledgeScope
) -> None:
    store = postgres_rig.knowledge(NoEmbedder())
    told = await separation(
        lambda: store.resolve_chunks(reader, ["doc-secret:v1:chunk-07"]),
        lambda: store.resolve_chunks(reader, ["doc-absent:v1:chunk-07"]),
        FEWER_CALLS,
    )
    assert abs(told - 0.5) < INDISTINGUISHABLE


@pytest.mark.spec("K2", "R2", "R5")
@pytest.mark.timeout(300)
async def test_search_for_a_word_of_hidden_text_takes_as_long_as_for_one_of_no_text(
    postgres_rig: PostgresRig, reader: KnowledgeScope
) -> None:
    """The word stands in 200 hidden passages, five times as many as are readable."""
    store = postgres_rig.knowledge(NoEmbedder())
    assert await store.search(reader, "kestrel plan", 5) == await store.search(reader, "ostrich plan", 5) == []
    told = await separation(
        lambda: store.search(reader, "kestrel plan", 5), lambda: store.search(reader, "ostrich plan", 5), FEWER_CALLS
    )
    assert abs(told - 0.5) < INDISTINGUISHABLE


@pytest.mark.spec("K2", "R2", "R5")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["of sixty scopes", "of most of the company"])
async def test_hidden_text_takes_no_time_of_a_reader(postgres_rig: PostgresRig, kind: str) -> None:
    """Sixty documents with lists of their own, or two thirds of all there is: hidden words are not looked at."""
    store, tenant = postgres_rig.knowledge(NoEmbedder()), new_tenant()
    await add_base(store, tenant, "open", roles=["employee"])
    await add_base(store, tenant, "hidden", roles=["nobody"])
    hidden = "\n\n".join(f"# Part {number}\n\nKestrel plan {number}, secret kestrel." for number in range(500))
    await add_document(store, tenant, "doc-secret", hidden, base_id="hidden")
    if kind == "of sixty scopes":
        for number in range(60):
            body = f"The gate code of house {number}."
            await add_document(store, tenant, f"doc-{number}", body, base_id="open", roles=["employee"])
    else:
        body = "\n\n".join(f"# Part {number}\n\nThe gate code of house {number}." for number in range(1_000))
        await add_document(store, tenant, "doc-open", body, base_id="open")
    who = KnowledgeScope(tenant, "rita", frozenset({"employee"}))
    told = await separation(
        lambda: store.search(who, "kestrel plan", 5), lambda: store.search(who, "ostrich plan", 5), FEWEST_CALLS
    )
    assert abs(told - 0.5) < INDISTINGUISHABLE


class _Leaky(KnowledgeStore):
    """Looks whether there is such a document before it asks whether the reader may see it, as is often written."""

    async def get_document(
        self, scope: KnowledgeScope, document_id: str, version: int | None = None, *, include_unpublished: bool = False
    ) -> DocumentInfo:
        if await self.document_state(scope.tenant, document_id) is None:
            raise NotFound
        return await super().get_document(scope, document_id, version, include_unpublished=include_unpublished)


async def test_store_that_looks_before_it_asks_is_told_apart(postgres_rig: PostgresRig, reader: KnowledgeScope) -> None:
    """What the tests above would say of a leak: they can fail."""
    leaky = _Leaky(postgres_rig.database(), postgres_rig.originals, NoEmbedder())
    told = await separation(
        lambda: _refused(leaky, reader, "doc-secret"), lambda: _refused(leaky, reader, "doc-absent"), 300
    )
    assert told - 0.5 > INDISTINGUISHABLE
