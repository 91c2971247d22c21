"""The knowledge of an opened pack, seen with an actor's eyes of this moment."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import EvidenceRef
from placet.knowledge import catalogue
from placet.knowledge.embedders import embedder_named, embedder_of
from placet.knowledge.models import DocumentInfo, KnowledgeScope
from placet.knowledge.reembedding import Reembedding
from placet.knowledge.store import KnowledgeStore
from placet.observability.context import new_id
from placet.storage import Database
from placet.toolkit import Actor, PackEnvironment, ResourceView

# Drafts and archived versions do not exist for anybody else, not even as a refusal.
SEES_UNPUBLISHED = frozenset({"knowledge_admin"})


class Reader:
    """Store, database and scope resolver; before `open` and after `close` every call is `dependency_unavailable`.

    Settings of the pack: `embedder` (`use`, `none`, `openai`), `embedder_model`, `embedder_base_url`,
    `embedder_api_key`. After a change of the model, search goes on with the old one until every chunk has been embedded
    anew, in the background.
    """

    def __init__(self) -> None:
        self._opened: tuple[KnowledgeStore, Database, PackEnvironment] | None = None
        self._embedding: asyncio.Task[None] | None = None

    def open(self, environment: PackEnvironment) -> None:
        """Raises `ValueError` for an embedder that does not exist."""
        embedder = embedder_of(environment.settings)
        database = Database.open(environment.database_url, application="placet-knowledge")
        others = partial(embedder_named, settings=environment.settings)
        store = KnowledgeStore(database, environment.originals, embedder, others=others)
        self._opened = (store, database, environment)
        self._embedding = asyncio.create_task(Reembedding(database, embedder, new_id("embed")).run())

    async def close(self) -> None:
        opened, self._opened = self._opened, None
        if self._embedding is not None:
            self._embedding.cancel()
            await asyncio.wait([self._embedding])
        if opened is not None:
            await opened[1].close()

    @property
    def store(self) -> KnowledgeStore:
        return self._parts()[0]

    @property
    def database(self) -> Database:
        return self._parts()[1]

    async def scope(self, actor: Actor) -> KnowledgeScope:
        """What policy lets the actor read now. Raises `policy_unavailable` when the answer cannot be used."""
        answer = await self._parts()[2].scope(actor)
        if answer.get("code") is not None or not isinstance(answer.get("visible"), bool):
            raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no scope.")
        return _scope(actor, answer.get("principals")) if answer["visible"] else KnowledgeScope.nothing(actor.tenant)

    async def document(self, actor: Actor, document_id: str, version: int | None = None) -> DocumentInfo:
        """The document and that version as the actor may see them. Raises `not_found` for all else."""
        scope = await self.scope(actor)
        unpublished = not SEES_UNPUBLISHED.isdisjoint(actor.roles)
        info, _ = await catalogue.one(self.database, scope, document_id, version, unpublished=unpublished)
        return info

    async def view(self, actor: Actor, document_id: str, version: int | None = None) -> ResourceView:
        """The document as a resource. Its version is the lock version, which every change of the document moves."""
        info = await self.document(actor, document_id, version)
        facts = {
            "tenant": info.tenant,
            "readable": True,
            "base": info.base_id,
            "owner": info.owner,
            "title": info.title,
            "trusted": info.trusted,
            "document_version": info.version,
            "status": info.status,
            "authors": list(info.authors),
        }
        return ResourceView(
            type="document", id=info.document_id, version=str(info.lock_version), tenant=info.tenant, facts=facts
        )

    def _parts(self) -> tuple[KnowledgeStore, Database, PackEnvironment]:
        if self._opened is None:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The knowledge tools are not open.")
        return self._opened


def whole_version(info: DocumentInfo) -> EvidenceRef:
    """Evidence for a version read as a whole, not by passages."""
    return EvidenceRef(
        chunk_id=f"{info.document_id}:v{info.version}",
        document_id=info.document_id,
        version=info.version,
        authors=info.authors,
        trusted=info.trusted,
    )


def _scope(actor: Actor, principals: Any) -> KnowledgeScope:
    try:
        scope = KnowledgeScope(
            tenant=principals["tenant"],
            user=principals["user"],
            roles=frozenset(principals["roles"]),
            teams=frozenset(principals["teams"]),
            clearance=principals["clearance"],
        )
    except (KeyError, TypeError) as error:
        raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave an incomplete scope.") from error
    if (scope.tenant, scope.user) != (actor.tenant, actor.id) or isinstance(scope.clearance, bool):
        raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave somebody else's scope.")
    return scope
