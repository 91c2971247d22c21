"""Evidence: pieces of documents that the run's owner may read at this moment. Never persisted (U4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from placet.contracts.execution import Citation, EvidenceRef
from services.agent.domain.calls import Ref
from services.agent.domain.signals import MANIPULATION

# The tool whose result is passages: numbered, cited, and read again by id.
SEARCH = "search_knowledge"


@dataclass(frozen=True, slots=True)
class Evidence:
    """`trusted` is false for text that nobody in the company vouches for, or that tries to give orders."""

    chunk_id: str
    document_id: str
    version: int
    title: str
    section: str | None
    text: str
    trusted: bool = True


def refs_of(evidence: Iterable[EvidenceRef]) -> tuple[Ref, ...]:
    return tuple(Ref(e.chunk_id, e.document_id, e.version, tuple(e.authors), e.trusted) for e in evidence)


def from_search(result: dict[str, Any], refs: Iterable[Ref]) -> list[Evidence]:
    """The items of a search as evidence. What the executor does not name as evidence is left out."""
    known = {ref.chunk_id: ref for ref in refs}
    found = []
    for item in result.get("items") or []:
        ref = known.get(str(item.get("chunk_id"))) if isinstance(item, dict) else None
        text = str(item.get("text") or item.get("snippet") or "") if ref else ""
        if ref and text.strip():
            section = item.get("section")
            found.append(
                Evidence(
                    chunk_id=ref.chunk_id,
                    document_id=ref.document_id,
                    version=ref.version,
                    title=str(item.get("title") or ""),
                    section=str(section) if section else None,
                    text=text,
                    trusted=ref.trusted and MANIPULATION.search(text) is None,
                )
            )
    return found


def from_citation(citation: Citation, ref: Ref) -> Evidence:
    """Evidence read again by id: what the owner may see of it today."""
    return Evidence(
        chunk_id=citation.chunk_id,
        document_id=citation.document_id,
        version=citation.version,
        title=citation.title,
        section=citation.section,
        text=citation.snippet,
        trusted=ref.trusted and MANIPULATION.search(citation.snippet) is None,
    )


def readable(evidence: Iterable[Evidence], citations: Iterable[Citation]) -> list[Evidence]:
    """What of `evidence` was just authorized again, under the title of today; trusted pieces first."""
    allowed = {citation.chunk_id: citation for citation in citations}
    kept = [replace(e, title=allowed[e.chunk_id].title) for e in evidence if e.chunk_id in allowed]
    return sorted(kept, key=lambda e: not e.trusted)
