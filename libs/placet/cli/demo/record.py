"""Step 6: the record of the refund, from the first question to the effect."""

from __future__ import annotations

import asyncio
import json
import time

from placet.cli.audit_lines import short_revision
from placet.cli.demo.refund import AMOUNT, Refund
from placet.cli.demo.report import Report
from placet.cli.demo.world import World
from placet.cli.output import print_table
from placet.contracts.approvals import AuditEntry

# A record may come a moment after the run's last event.
PATIENCE_S = 10.0
HOPS = {"agent", "tool-executor", "approval"}


async def show(world: World, refund: Refund, report: Report) -> None:
    report.step("Step 6: the record of it")
    entries = await _record(world, refund)
    print_table(
        ("seq", "service", "record", "who", "tool", "arguments", "decision", "approvers", "effect", "request"),
        (_row(entry) for entry in entries),
    )
    _check_content(entries, refund, report)
    _check_hops(entries, refund, report)


async def _record(world: World, refund: Refund) -> list[AuditEntry]:
    """Everything about the run, once the record of its end is there."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        entries = [entry async for entry in world["auditor"].audit.events(run_id=refund.run_id)]
        ended = {"run-finished", "proposal-completed"} <= {entry.type for entry in entries}
        if ended or time.monotonic() > deadline:
            return entries
        await asyncio.sleep(0.2)


def _check_content(entries: list[AuditEntry], refund: Refund, report: Report) -> None:
    calls = [entry.record for entry in entries if entry.record.tool == "refund_payment"]
    report.holds(
        "who and what: Alice, refund_payment, with its arguments",
        any(r.actor == "alice" and float((r.arguments or {}).get("amount", 0)) == float(AMOUNT) for r in calls),
        expected=f"a record by alice with amount {AMOUNT}",
        got=[(r.actor, r.arguments) for r in calls],
    )
    decided = [r for r in calls if (r.decision or {}).get("effect") == "require_approval"]
    report.holds(
        "policy's decision, with its revision",
        any((r.policy_revision or "").startswith("sha256:") for r in decided),
        expected="require_approval under sha256:…",
        got=[(r.decision, r.policy_revision) for r in calls],
    )
    effects = [r for r in calls if "dave" in r.approvers and r.idempotency_key]
    report.holds("the approver, and the effect under its key", bool(effects), expected="dave", got=calls)
    report.holds(
        "the decision of a person is a record of its own",
        any(entry.type == "proposal-decided" and entry.record.actor == "dave" for entry in entries),
        expected="proposal-decided by dave",
        got=[(entry.type, entry.record.actor) for entry in entries],
    )
    report.holds(
        "every record is about this run", all(entry.record.run_id == refund.run_id for entry in entries), got=entries
    )


def _check_hops(entries: list[AuditEntry], refund: Refund, report: Report) -> None:
    """A person's decision is a request of its own; everything else belongs to the one that Alice made."""
    own = [entry for entry in entries if entry.type != "proposal-decided"]
    services = {entry.record.service for entry in own if entry.record.request_id == refund.request_id}
    report.holds(f"one request id through all hops: {refund.request_id}", services >= HOPS, expected=HOPS, got=services)
    strays = [(entry.type, entry.record.request_id) for entry in own if entry.record.request_id != refund.request_id]
    report.equal("and no other one in between", strays, [])


def _row(entry: AuditEntry) -> tuple[object, ...]:
    record = entry.record
    effect = (record.decision or {}).get("effect", "")
    revision = f" {short_revision(record.policy_revision)}" if record.policy_revision else ""
    outcome = record.outcome + (f" ({record.code})" if record.code else "")
    arguments = json.dumps(record.arguments, ensure_ascii=False) if record.arguments else ""
    return (
        entry.seq,
        record.service,
        entry.type,
        record.actor,
        record.tool,
        arguments,
        f"{effect}{revision}".strip(),
        ", ".join(record.approvers),
        outcome,
        record.request_id[-8:],
    )
