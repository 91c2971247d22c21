"""Loads the demo world's documents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from placet.knowledge.models import Acl, DocumentState, KnowledgeBase, NewVersion
from placet.knowledge.store import KnowledgeStore


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AclEntry(_Entry):
    """As in `placet.knowledge.models.Acl`."""

    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    clearance: int = Field(default=0, ge=0, le=10)
    owner: str | None = None

    def value(self) -> Acl:
        return Acl(roles=frozenset(self.roles), teams=frozenset(self.teams), clearance=self.clearance, owner=self.owner)


class BaseEntry(_Entry):
    tenant: str
    id: str
    title: str
    acl: AclEntry


class DocumentEntry(_Entry):
    """One file of the demo world and the status it ends in."""

    tenant: str
    id: str
    base: str
    title: str
    file: str
    status: Literal["draft", "published", "archived"]
    created_by: str
    authors: tuple[str, ...]
    acl: AclEntry = AclEntry()
    trusted: bool = True


class Manifest(_Entry):
    """`manifest.json`: bases first, then documents; `file` is relative to it."""

    bases: tuple[BaseEntry, ...]
    documents: tuple[DocumentEntry, ...]


async def load(store: KnowledgeStore, path: Path) -> int:
    """Load `path/manifest.json`; returns how many documents are new. A repeated call changes nothing.

    What is there already keeps its state, whatever people have done to it since; a load that was interrupted is
    finished.
    """
    manifest = Manifest.model_validate(_json(path / "manifest.json"))
    for base in manifest.bases:
        await store.put_base(KnowledgeBase(base.tenant, base.id, base.title, base.acl.value()), only_new=True)
    created = 0
    for entry in manifest.documents:
        state = await store.document_state(entry.tenant, entry.id)
        if state is None:
            state = await store.ingest(_new_version(entry, (path / entry.file).read_bytes()))
            created += 1
        await _advance(store, entry, state)
    return created


def _json(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _new_version(entry: DocumentEntry, data: bytes) -> NewVersion:
    return NewVersion(
        tenant=entry.tenant,
        document_id=entry.id,
        base_id=entry.base,
        title=entry.title,
        filename=Path(entry.file).name,
        data=data,
        created_by=entry.created_by,
        authors=entry.authors,
        acl=entry.acl.value(),
        trusted=entry.trusted,
    )


async def _advance(store: KnowledgeStore, entry: DocumentEntry, state: DocumentState) -> None:
    """From draft to the status in the manifest. A document that anybody else has moved is left alone."""
    lock_version = state.lock_version
    if (state.version, state.status, lock_version) == (1, "draft", 1) and entry.status != "draft":
        done = await store.publish(
            entry.tenant, entry.id, 1, lock_version=1, actor=entry.created_by, idempotency_key=f"seed:{entry.id}"
        )
        lock_version = done.lock_version
    if entry.status == "archived" and state.status != "archived" and (state.version, lock_version) == (1, 2):
        await store.archive(entry.tenant, entry.id, 1, lock_version=2)
