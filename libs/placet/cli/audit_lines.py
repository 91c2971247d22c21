"""One audit record as one line for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from placet.contracts.approvals import AuditEntry


def line(entry: AuditEntry) -> str:
    """Sequence, time, service, what, who, tool and arguments, outcome, approvers, request id."""
    record = entry.record
    parts = [
        f"{entry.seq:>6}",
        entry.time[:19],
        f"{record.service:<13}",
        f"{entry.type:<18}",
        record.actor or "-",
        record.action if record.tool is None else f"{record.tool} {_compact(record.arguments)}",
        record.outcome + (f" ({record.code})" if record.code else ""),
    ]
    if record.approvers:
        parts.append("approved by " + ", ".join(record.approvers))
    if record.policy_revision:
        parts.append(f"policy {short_revision(record.policy_revision)}")
    return "  ".join([*parts, record.request_id])


def short_revision(revision: str) -> str:
    """`sha256:` and the first twelve digits: enough to tell revisions apart by eye."""
    kind, _, digest = revision.partition(":")
    return f"{kind}:{digest[:12]}" if digest else revision[:12]


def _compact(arguments: dict[str, object] | None) -> str:
    return json.dumps(arguments or {}, ensure_ascii=False)
