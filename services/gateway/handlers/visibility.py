"""Runs belong to their owner. For everybody else they do not exist (I3)."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, not_found
from services.gateway.domain.runs import RunKey, RunRecord
from services.gateway.handlers.caller import Caller


async def own_run(caller: Caller, run_id: str, action: str) -> RunRecord:
    """What is stored about a run of the caller's own.

    Raises the one `not_found` for an absent run and for another person's, after the same work for both: the same
    reads, and the same audit record. Only the record says which of the two it was.
    """
    key = RunKey(caller.tenant, run_id)
    record = await caller.ports.runs.record(key)
    if record.owner != caller.subject:
        # Looked at again, because a run that has just left the queue may have been missed by both reads.
        record = await caller.ports.runs.record(key)
    if record.owner == caller.subject:
        return record
    await caller.ports.audit.record(
        caller.tenant,
        "access-denied",
        action=action,
        outcome="denied",
        code=ErrorCode.NOT_FOUND.value,
        run_id=run_id,
        note="another person's run" if record.owner is not None else "no such run",
    )
    raise not_found()
