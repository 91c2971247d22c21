"""The knowledge room's face: everything other rooms call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge import catalogue
from placet.knowledge.acl import AccessLists
from placet.knowledge.indexing import Indexing
from placet.knowledge.ingest import Ingest
from placet.knowledge.meanings import OtherEmbedders, no_others
from placet.knowledge.models import (
    Acl,
    DocumentInfo,
    DocumentList,
    DocumentState,
    Hit,
    KnowledgeBase,
    KnowledgeScope,
    NewVersion,
    Publication,
    SourceSlice,
    VersionText,
)
from placet.knowledge.parser import Parser
from placet.knowledge.ports import Database, Embedder, FileParser, OriginalStore
from placet.knowledge.publishing import Publishing
from placet.knowledge.releases import Releases
from placet.knowledge.search import Search


class KnowledgeStore:
    """Documents of all tenants. Reads take the actor's scope of this moment; writes were authorized by the caller.

    What a scope cannot read and what does not exist end alike: left out of lists, or NotFound.
    Every method may raise PlacetError `dependency_unavailable` or `timeout`.
    """

    def __init__(
        self,
        database: Database,
        originals: OriginalStore,
        embedder: Embedder,
        parser: FileParser | None = None,
        *,
        others: OtherEmbedders = no_others,
    ) -> None:
        """`others` gives the embedder of a model by name: the serving one is asked, too, while another is prepared."""
        others = cache(others)
        self._database = database
        self._originals = originals
        self._parser = parser or Parser()
        self._search = Search(database, embedder, others)
        self._publishing = Publishing(database)
        self._access = AccessLists(database)
        self.indexing = Indexing(database, originals, self._parser, embedder, others)
        self._ingest = Ingest(database, self.indexing)
        self.releases = Releases(database)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def search(self, scope: KnowledgeScope, query: str, k: int = 8) -> list[Hit]:
        """The best `k` chunks (1 to 50) of published versions, best first."""
        return await self._search.find(scope, query, k)

    async def resolve_chunks(self, scope: KnowledgeScope, chunk_ids: Sequence[str]) -> list[Hit]:
        """Citations that may be shown now, in the order given; invented, outdated and forbidden ids are left out."""
        return await self._search.resolve(scope, chunk_ids)

    async def readable_versions(
        self, scope: KnowledgeScope, versions: Collection[tuple[str, int]], *, include_unpublished: bool = False
    ) -> dict[tuple[str, int], str]:
        """Of these (document, version) pairs, those that `get_document` would find now, with the version's title."""
        return await catalogue.titles(self._database, scope, versions, unpublished=include_unpublished)

    async def get_document(
        self, scope: KnowledgeScope, document_id: str, version: int | None = None, *, include_unpublished: bool = False
    ) -> DocumentInfo:
        """Metadata with those of `version` (default: published, else newest). Raises NotFound.

        `include_unpublished` finds drafts and archived versions too; who may see them is policy's say.
        """
        info, _ = await catalogue.one(self._database, scope, document_id, version, unpublished=include_unpublished)
        return info

    async def list_documents(
        self, scope: KnowledgeScope, cursor: str | None = None, limit: int = 50, *, include_unpublished: bool = False
    ) -> DocumentList:
        """One page (1 to 200) in the order of ids."""
        return await catalogue.page(self._database, scope, cursor, limit, unpublished=include_unpublished)

    async def read_version(self, scope: KnowledgeScope, document_id: str, version: int | None = None) -> VersionText:
        """Any version, drafts and archived ones too, from its original file (default: published, else newest).

        Needs read on base and document, checked here. That the actor has the role for unpublished text is
        policy's decision, taken before. Raises NotFound, ParseError.
        """
        info, key = await catalogue.one(self._database, scope, document_id, version, unpublished=True)
        parsed = await self._parser.parse(info.filename, await self._original(key))
        return VersionText(
            document_id=info.document_id,
            base_id=info.base_id,
            title=info.title,
            version=info.version,
            status=info.status,
            content=parsed.as_text(),
        )

    async def source(
        self,
        scope: KnowledgeScope,
        document_id: str,
        version: int | None = None,
        offset: int = 0,
        limit: int = 262_144,
        *,
        include_unpublished: bool = False,
    ) -> SourceSlice:
        """At most `limit` bytes of the original file from `offset`. Authorized anew at every slice. Raises NotFound."""
        info, key = await catalogue.one(self._database, scope, document_id, version, unpublished=include_unpublished)
        return SourceSlice(
            document_id=info.document_id,
            version=info.version,
            filename=info.filename,
            media_type=info.media_type,
            sha256=info.sha256,
            size=info.size,
            offset=offset,
            data=await self._slice(key, offset, limit),
        )

    # -- writing ---------------------------------------------------------------------------------------------------

    async def put_base(self, base: KnowledgeBase, *, only_new: bool = False) -> None:
        """Create a knowledge base, or (unless `only_new`) set who may read it; effective for the next read."""
        await self._ingest.put_base(base, only_new=only_new)

    async def document_state(self, tenant: str, document_id: str) -> DocumentState | None:
        """The newest version of a document, for the system's own use: no scope is applied."""
        return await self._ingest.state(tenant, document_id)

    async def ingest(self, new: NewVersion) -> DocumentState:
        """Take a file in as the next draft. Idempotent on its bytes. Raises ParseError, NotFound (no such base)."""
        return await self._ingest.take_in(new)

    async def publish(
        self, tenant: str, document_id: str, version: int, *, lock_version: int, actor: str, idempotency_key: str
    ) -> Publication:
        """Publish `version` if the document is still at `lock_version`.

        Raises LockVersionConflict, NotPublishable, NotFound; PlacetError `outcome_unknown` when the database was lost
        while committing: `lookup_publish` then tells.
        """
        return await self._publishing.publish(
            tenant, document_id, version, lock_version=lock_version, actor=actor, idempotency_key=idempotency_key
        )

    async def lookup_publish(self, tenant: str, idempotency_key: str) -> Publication | None:
        """Whether the publishing with this key took effect."""
        return await self._publishing.look_up(tenant, idempotency_key)

    async def archive(self, tenant: str, document_id: str, version: int, *, lock_version: int) -> int:
        """Withdraw the published version. Returns the new lock version. Raises LockVersionConflict, NotFound."""
        return await self._publishing.archive(tenant, document_id, version, lock_version=lock_version)

    async def set_acl(self, tenant: str, document_id: str, acl: Acl, *, lock_version: int | None = None) -> int:
        """Set who may read a document, of those who may read its base. Raises LockVersionConflict, NotFound."""
        return await self._access.change(tenant, document_id, acl, lock_version=lock_version)

    async def _original(self, key: str) -> bytes:
        try:
            return await self._originals.get(key)
        except KeyError as error:
            raise _lost() from error

    async def _slice(self, key: str, offset: int, limit: int) -> bytes:
        try:
            return await self._originals.read(key, offset, limit)
        except KeyError as error:
            raise _lost() from error


def _lost() -> PlacetError:
    """The catalogue names the file, so it was there: a fault of the store, not an unknown document."""
    return PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The original file cannot be read.")
