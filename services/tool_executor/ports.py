"""What the executor needs of the outside, by role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from placet.contracts.approvals import ProposeAction
from placet.contracts.documents import SetDocumentAcl, VersionReceived
from placet.contracts.envelope import Event
from placet.contracts.events import Proposed
from placet.contracts.execution import Citation, DocumentPage, DocumentView, SourceSlice
from placet.contracts.policy import KnowledgeScope
from placet.contracts.proposals import ProposalView
from placet.knowledge.models import DocumentState, Place, Reading, Rebuild, Upload
from services.tool_executor.domain.ledger import Entry
from services.tool_executor.domain.usage import RunUse


class LedgerRaceError(Exception):
    """Another worker has written to this key since it was read."""


class EffectLedger(Protocol):
    """Every effect, by its idempotency key."""

    async def load(self, tenant: str, key: str) -> Entry: ...

    async def append(self, tenant: str, key: str, name: str, event: Event, entry: Entry) -> Entry:
        """Append after what `entry` has seen; returns the new state. Raises `LedgerRaceError`."""
        ...


class Approvals(Protocol):
    async def propose(self, command: ProposeAction) -> ProposalView: ...


class Proposals(Protocol):
    """Proposals as their stream tells them."""

    async def find(self, tenant: str, proposal_id: str) -> Proposed | None:
        """The first event of the proposal that this call's is or was merged into, if its signature holds."""
        ...


class RunCounters(Protocol):
    """What a run uses, race-safe over all replicas."""

    async def take_call(self, tenant: str, run_id: str, call_id: str, fingerprint: str | None) -> RunUse:
        """Count one more tool call; returns what there was before it, the first call of `fingerprint` included."""
        ...

    async def spend(self, tenant: str, run_id: str, call_id: str, amount: float, limit: float) -> bool:
        """Count the money of one call; False, and nothing counted, when the run's limit would be exceeded."""
        ...


class TenantSpending(Protocol):
    """What a tenant spends on one day, race-safe over all replicas. Keys are the effects'."""

    async def reserve(self, tenant: str, key: str, amount: float, limit: float) -> bool:
        """False when the day's limit would be exceeded. Reserving again under one key changes nothing."""
        ...

    async def release(self, tenant: str, key: str) -> None:
        """The effect did not take place."""
        ...

    def keep(self, tenant: str, key: str) -> None:
        """The effect took place. Not waited for: what is reserved counts already."""
        ...


class Replicas(Protocol):
    """How many executors share the work now, this one included."""

    workers: int


@dataclass(frozen=True, slots=True)
class DocumentRight:
    """What a reader of documents may see. `unpublished`: drafts and archived versions, too."""

    scope: KnowledgeScope
    unpublished: bool


@dataclass(frozen=True, slots=True)
class DocumentFacts:
    """A document as its reader may see it, and what policy judges its management by."""

    view: DocumentView
    owners: tuple[str, ...]
    published_version: int | None


class Documents(Protocol):
    """Documents under the scope of this moment. Absent and forbidden both raise `not_found`."""

    async def page(self, tenant: str, right: DocumentRight, cursor: str | None, limit: int) -> DocumentPage: ...

    async def one(self, tenant: str, right: DocumentRight, document_id: str) -> DocumentView: ...

    async def facts(
        self, tenant: str, right: DocumentRight, document_id: str, version: int | None = None
    ) -> DocumentFacts | None: ...

    async def released(self, tenant: str, actor: str, document_id: str, version: int) -> bool:
        """Whether people have agreed, not long ago, to show this unpublished version to the actor."""
        ...

    async def set_acl(self, tenant: str, command: SetDocumentAcl) -> int:
        """Returns the new lock version. Raises `conflict`."""
        ...

    async def withdraw(self, tenant: str, document_id: str, version: int, *, lock_version: int) -> int:
        """Returns the new lock version. Raises `conflict`."""
        ...

    async def source(
        self, tenant: str, right: DocumentRight, document_id: str, version: int | None, offset: int, limit: int
    ) -> SourceSlice: ...

    async def citations(self, tenant: str, scope: KnowledgeScope, chunk_ids: Sequence[str]) -> Sequence[Citation]:
        """Of these passages, those of published versions that may be read."""
        ...

    async def versions(
        self, tenant: str, right: DocumentRight, versions: Collection[tuple[str, int]]
    ) -> Mapping[tuple[str, int], str]:
        """Of these versions of documents, those that may be read, with their titles."""
        ...


class Uploads(Protocol):
    """Files on their way. All raise `not_found` for an upload that is not this actor's."""

    async def place(
        self, tenant: str, scope: KnowledgeScope, base_id: str, document_id: str | None
    ) -> Place | None: ...

    async def begin(self, upload: Upload) -> Upload: ...

    async def find(self, tenant: str, upload_id: str, actor: str) -> Upload: ...

    async def add_part(self, upload: Upload, index: int, data: bytes) -> None: ...

    async def finish(self, upload: Upload) -> DocumentState:
        """The version it became. Raises `invalid_request` when the parts are not the file that was announced."""
        ...


class Versions(Protocol):
    async def read(
        self, tenant: str, document_id: str, version: int, report: Callable[[Reading], Awaitable[None]]
    ) -> Reading: ...

    async def give_up(self, tenant: str, document_id: str, version: int) -> Reading: ...

    async def forgotten(self) -> Sequence[tuple[str, VersionReceived]]:
        """By tenant, the versions that nobody has worked on for longer than any job is silent."""
        ...

    async def sweep_uploads(self) -> None: ...


class Rebuilds(Protocol):
    async def start(self, tenant: str, rebuild_id: str, actor: str) -> Rebuild:
        """The rebuilding that goes on, or a new one."""
        ...

    async def status(self, tenant: str, rebuild_id: str) -> Rebuild:
        """Raises `not_found`."""
        ...

    async def run(self, tenant: str, rebuild_id: str, report: Callable[[Rebuild], Awaitable[None]]) -> Rebuild: ...


class KnowledgeEvents(Protocol):
    async def write(self, tenant: str, name: str, entity: str, record: Event, *, once: str | None = None) -> None: ...
