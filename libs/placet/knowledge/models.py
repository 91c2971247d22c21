"""The values of the knowledge room. All frozen; none does I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KnowledgeScope:
    """Who is reading, with the directory's facts of this moment, as policy returned them.

    It names principals, not documents: the store resolves what they may read at each call.
    """

    tenant: str
    user: str
    roles: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    clearance: int = 0

    @classmethod
    def nothing(cls, tenant: str) -> KnowledgeScope:
        """Sees nothing; what policy's `visible: false` becomes, so that a refusal does the same work as a search."""
        return cls(tenant=tenant, user="", clearance=-1)


@dataclass(frozen=True, slots=True)
class Acl:
    """Who may read. Every list that is not empty must be met; the owner always may.

    On a base, no roles and no teams means: only the owner. On a document, it means: as open as its base.
    """

    roles: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    clearance: int = 0
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class KnowledgeBase:
    tenant: str
    base_id: str
    title: str
    acl: Acl


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A file to take in: a new document, or a new version when `document_id` exists.

    `acl` and `trusted` count for a new document only; taking in a new version never changes who may read.
    `trusted` false marks text from outside the company: what follows from it may need a person's approval.
    """

    tenant: str
    document_id: str
    base_id: str
    title: str
    filename: str
    data: bytes
    created_by: str
    authors: tuple[str, ...] = ()
    acl: Acl = field(default_factory=Acl)
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class DocumentState:
    """Where a document stands: its newest version. `created` says that the call which returned this made it."""

    document_id: str
    version: int
    status: str
    lock_version: int
    created: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A base that a file may go to: who owns it, and the document where one is named. Policy judges by it.

    `document_found`: the named document lies in this base and can be read, or none was named.
    """

    owners: tuple[str, ...]
    document_found: bool


@dataclass(frozen=True, slots=True)
class Upload:
    """A file on its way. `parts` are the places of the parts stored so far; `version` is set once it has become one.

    `sha256` is what the sender says. `is_new`: the document comes into being with it.
    """

    tenant: str
    upload_id: str
    actor: str
    base_id: str
    document_id: str
    is_new: bool
    title: str
    filename: str
    trusted: bool
    size: int
    sha256: str
    parts: tuple[int, ...] = ()
    version: int | None = None

    def same_file(self, other: Upload) -> bool:
        return (self.base_id, self.document_id, self.size, self.sha256) == (
            *(other.base_id, other.document_id, other.size, other.sha256),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """How far the reading of a version has come. `reason` and `detail` say why it failed."""

    document_id: str
    version: int
    state: str
    percent: int
    chunks: int
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Rebuild:
    """A rebuilding of the index, counted in versions."""

    rebuild_id: str
    total: int
    done: int
    failed: int
    finished: bool


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one version, stable for the same bytes. `page` counts from 1; `section` is `Chapter > Section`."""

    chunk_id: str
    ordinal: int
    body: str
    page: int | None = None
    section: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk this actor may read now.

    `score` orders one result and means nothing across results; 0 for resolved citations. Whether a chunk speaks to the
    question at all is told by `coverage` (0 to 1: the share of the question's words, by their weight, found in it) and
    `similarity` (cosine of the meanings, None when the chunk was not among the nearest or there are no vectors).
    """

    chunk_id: str
    document_id: str
    title: str
    version: int
    page: int | None
    section: str | None
    snippet: str
    body: str
    score: float
    coverage: float = 0.0
    similarity: float | None = None
    authors: tuple[str, ...] = ()
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class DocumentInfo:
    """Metadata of a document and of one of its versions: the published one, else the newest.

    The document takes `version_title` when this version is published.
    """

    tenant: str
    document_id: str
    base_id: str
    title: str
    owner: str | None
    trusted: bool
    lock_version: int
    published_version: int | None
    latest_version: int
    version: int
    status: str
    filename: str
    media_type: str
    sha256: str
    size: int
    authors: tuple[str, ...]
    updated_at: datetime
    base_owner: str | None = None
    version_title: str = ""
    latest_sha256: str = ""
    reading: Reading | None = None


@dataclass(frozen=True, slots=True)
class DocumentList:
    """One page; `next` is the cursor of the following page or None."""

    items: tuple[DocumentInfo, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class VersionText:
    """What re-parsing the original of a version gave."""

    document_id: str
    base_id: str
    title: str
    version: int
    status: str
    content: str


@dataclass(frozen=True, slots=True)
class SourceSlice:
    """Bytes of an original file from `offset`; `size` and `sha256` (hex) are of the whole file."""

    document_id: str
    version: int
    filename: str
    media_type: str
    sha256: str
    size: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Publication:
    """A publishing that took effect. `lock_version` is the document's after it."""

    document_id: str
    version: int
    previous_version: int | None
    lock_version: int
    actor: str
    published_at: datetime
