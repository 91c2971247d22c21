"""One tool call of a run: what was asked, where it stands, and what may be kept of its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from placet.contracts.digests import canonical, derived_id


class CallStatus(StrEnum):
    """`ERROR` carries an error code; those after `WAITING` say how a proposal ended.

    `DROPPED`: planned, and never asked for, because the world it was planned for has changed.
    """

    PLANNED = "planned"
    DROPPED = "dropped"
    OK = "ok"
    ERROR = "error"
    WAITING = "waiting"
    RESPONDED = "responded"
    REJECTED = "rejected"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    DENIED = "denied"
    FAILED = "failed"
    VERIFICATION_FAILED = "verification_failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Ref:
    """One piece of evidence by id: content is read anew, and authorized anew, whenever it is needed."""

    chunk_id: str
    document_id: str
    version: int
    authors: tuple[str, ...] = ()
    trusted: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """`reads`: the tool only reads, so its result is evidence and is never kept here.

    `receipt` is what a write answered, or what a person answered instead; `ran` the arguments that really ran when
    an approver changed them; `repeats` the id of the identical call whose result answers this one.
    """

    call_id: str
    step: int
    tool: str
    args: dict[str, Any]
    title: str = ""
    risk: str = ""
    reads: bool = True
    status: CallStatus = CallStatus.PLANNED
    code: str | None = None
    note: str | None = None
    problems: tuple[dict[str, str], ...] = ()
    refs: tuple[Ref, ...] = ()
    proposal_id: str | None = None
    receipt: dict[str, Any] | None = None
    ran: dict[str, Any] | None = None
    decided_by: tuple[str, ...] = field(default=())
    repeats: str | None = None

    @property
    def settled(self) -> bool:
        return self.status not in (CallStatus.PLANNED, CallStatus.WAITING)

    @property
    def succeeded(self) -> bool:
        return self.status in (CallStatus.OK, CallStatus.RESPONDED)

    def as_json(self) -> dict[str, Any]:
        """JSON types only: this is what a checkpoint holds."""
        document = asdict(self)
        document["status"] = self.status.value
        document["problems"] = list(self.problems)
        document["refs"] = [asdict(ref) | {"authors": list(ref.authors)} for ref in self.refs]
        document["decided_by"] = list(self.decided_by)
        return document

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Call:
        refs = tuple(Ref(**(ref | {"authors": tuple(ref["authors"])})) for ref in document["refs"])
        return cls(
            **document
            | {
                "status": CallStatus(document["status"]),
                "problems": tuple(document["problems"]),
                "refs": refs,
                "decided_by": tuple(document["decided_by"]),
            }
        )


def fingerprint(tool: str, args: dict[str, Any]) -> str:
    """The same for the same tool with the same arguments, however they are ordered (U3)."""
    return hashlib.sha256(canonical([tool, args])).hexdigest()


def call_id(run_id: str, step: int, index: int, tool: str, args: dict[str, Any]) -> str:
    """Stable for one planned call, so that asking the executor again is asking about the same call."""
    return derived_id("call", run_id, str(step), str(index), fingerprint(tool, args))


def earlier_twin(calls: Iterable[Call], tool: str, args: dict[str, Any]) -> Call | None:
    """The first call of this run with the same tool and arguments that was made and not itself answered by another."""
    wanted = fingerprint(tool, args)
    made = (call for call in calls if call.repeats is None and call.status is not CallStatus.DROPPED)
    return next((call for call in made if fingerprint(call.tool, call.args) == wanted), None)


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`new` states of calls laid over `old` ones, in the order in which calls were first planned."""
    together = {document["call_id"]: document for document in old}
    together |= {document["call_id"]: document for document in new}
    return list(together.values())


def by_id(calls: Iterable[Call], wanted: str) -> Call | None:
    return next((call for call in calls if call.call_id == wanted), None)
