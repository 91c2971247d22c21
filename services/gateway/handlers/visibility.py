"""Runs belong to their owner. For everybody else they do not exist (I3)."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from services.gateway.domain.runs import RunKey, RunRecord
from services.gateway.handlers.caller import Caller
from services.gateway.handlers.citations import Shown, shown_of


async def own_run(caller: Caller, run_id: str, action: str) -> RunRecord:
    """What is stored about a run of the caller's own.

    Raises the one `not_found` for an absent run and for another person's, after the same work for both: the same
    reads, and the same audit record. Only the record says which of the two it was. What an owner may be shown of it
    today is another question (`for_reading`).
    """
    key = RunKey(caller.tenant, run_id)
    record = await caller.ports.runs.record(key)
    if record.owner != caller.subject:
        # Looked at again, because a run that has just left the queue may have been missed by both reads.
        record = await caller.ports.runs.record(key)
    if record.owner == caller.subject:
        return record
    note = "another person's run" if record.owner is not None else "no such run"
    raise await denied(caller, run_id, action, note)


async def for_reading(caller: Caller, run_id: str, action: str) -> tuple[RunRecord, Shown]:
    """An own run, and what its owner may be shown of it now. Raises `not_found` for a person who is gone, too."""
    record = await own_run(caller, run_id, action)
    allowed = await shown_of(caller, record.end)
    if not allowed.active:
        raise await denied(caller, run_id, action, "a person who is not active")
    return record, allowed


async def denied(caller: Caller, run_id: str, action: str, note: str) -> PlacetError:
    """Put a denied look on the record; what is told is the one `not_found`. Only the record says why."""
    await caller.ports.audit.record(
        caller.tenant,
        "access-denied",
        action=action,
        outcome="denied",
        code=ErrorCode.NOT_FOUND.value,
        run_id=run_id,
        note=note,
    )
    return not_found()
