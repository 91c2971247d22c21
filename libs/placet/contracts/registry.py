"""Every message by owner and name: what AsyncAPI, golden schemas, permissions and dispatch are made from."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel

from placet.contracts import approvals, audit, documents, events, execution, runs
from placet.contracts.envelope import Command, Event


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command, its reply (None for a queued one) and the services that may send it."""

    owner: str
    name: str
    model: type[Command]
    reply: type[BaseModel] | None
    callers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EventSpec:
    owner: str
    name: str
    model: type[Event]
    signed: bool


def _executor(name: str, model: type[Command], reply: type[BaseModel], *callers: str) -> CommandSpec:
    return CommandSpec("tool-executor", name, model, reply, callers)


def _approval(name: str, model: type[Command], reply: type[BaseModel], *callers: str) -> CommandSpec:
    return CommandSpec("approval", name, model, reply, callers)


COMMANDS: tuple[CommandSpec, ...] = (
    _executor("execute-tool", execution.ExecuteTool, execution.ToolReply, "agent", "gateway"),
    _executor("list-tools", execution.ListTools, execution.ToolList, "agent", "gateway"),
    _executor("resolve-citations", execution.ResolveCitations, execution.Citations, "agent", "gateway"),
    _executor("assess-action", execution.AssessAction, execution.PacketReply, "approval"),
    _executor("list-documents", execution.ListDocuments, execution.DocumentPage, "gateway"),
    _executor("get-document", execution.GetDocument, execution.DocumentView, "gateway"),
    _executor("read-source", execution.ReadSource, execution.SourceSlice, "gateway"),
    _executor("begin-upload", documents.BeginUpload, documents.UploadState, "gateway"),
    _executor("upload-part", documents.UploadPart, documents.UploadState, "gateway"),
    _executor("finish-upload", documents.FinishUpload, documents.DocumentDraft, "gateway"),
    _executor("set-document-acl", documents.SetDocumentAcl, execution.DocumentView, "gateway"),
    _executor("withdraw-document", documents.WithdrawDocument, execution.DocumentView, "gateway"),
    _executor("start-rebuild", documents.StartRebuild, documents.RebuildState, "gateway"),
    _executor("get-rebuild", documents.GetRebuild, documents.RebuildState, "gateway"),
    _executor("get-person", execution.GetPerson, execution.PersonReply, "gateway"),
    _executor("put-person", execution.PutPerson, execution.PersonReply, "gateway"),
    _executor("settle-effect", execution.SettleEffect, execution.EffectState, "gateway"),
    _approval("propose", approvals.ProposeAction, approvals.ProposalReply, "tool-executor"),
    _approval("decide", approvals.DecideProposal, approvals.DecisionResult, "gateway"),
    _approval("withdraw", approvals.WithdrawProposal, approvals.DecisionResult, "agent"),
    _approval("get-proposal", approvals.GetProposal, approvals.ProposalReply, "gateway"),
    _approval("list-proposals", approvals.ListProposals, approvals.ProposalPage, "gateway"),
    _approval("list-proposal-events", approvals.ListProposalEvents, approvals.ProposalEvents, "gateway"),
    _approval("query-audit", approvals.QueryAudit, approvals.AuditPage, "gateway"),
    CommandSpec("agent", "start-run", runs.StartRun, None, ("gateway",)),
    CommandSpec("agent", "cancel-run", runs.CancelRun, runs.CancelAccepted, ("gateway",)),
    CommandSpec("memory", "get-summary", runs.SummaryOf, runs.Summary, ("gateway", "agent")),
    CommandSpec("memory", "save-summary", runs.SaveSummary, runs.Done, ("agent",)),
    CommandSpec("memory", "forget-summary", runs.SummaryOf, runs.Done, ("gateway",)),
)

_APPROVAL_EVENTS: dict[str, type[Event]] = {
    "proposed": events.Proposed,
    "merged": events.Merged,
    "joined": events.Joined,
    "waiting-for-human": events.WaitingForHuman,
    "viewed": events.Viewed,
    "approved": events.Approved,
    "edited": events.Edited,
    "rejected": events.Rejected,
    "responded": events.Responded,
    "cancelled": events.Cancelled,
    "expired": events.Expired,
    "superseded": events.Superseded,
    "regraded": events.Regraded,
    "completed": events.Completed,
}

_EFFECT_EVENTS: dict[str, type[Event]] = {
    "claimed": events.Claimed,
    "executed": events.Executed,
    "failed": events.Failed,
    "unknown": events.Unknown,
    "verified": events.Verified,
    "verification-failed": events.VerificationFailed,
}

_KNOWLEDGE_EVENTS: dict[str, type[Event]] = {
    "version-received": documents.VersionReceived,
    "version-progress": documents.VersionProgress,
    "version-ready": documents.VersionReady,
    "version-failed": documents.VersionFailed,
    "rebuild-started": documents.RebuildProgress,
    "rebuild-progress": documents.RebuildProgress,
    "rebuild-finished": documents.RebuildProgress,
}

AUDIT_EVENTS: tuple[str, ...] = (
    "tool-decided",
    "tool-finished",
    "effect-finished",
    "proposal-decided",
    "proposal-regraded",
    "proposal-completed",
    "directory-changed",
    "document-changed",
    "access-denied",
    "security-event",
    "run-reconsidered",
    "run-finished",
)

EVENTS: tuple[EventSpec, ...] = (
    *(EventSpec("approval", name, model, True) for name, model in _APPROVAL_EVENTS.items()),
    *(EventSpec("tool-executor", name, model, True) for name, model in _EFFECT_EVENTS.items()),
    *(EventSpec("knowledge", name, model, False) for name, model in _KNOWLEDGE_EVENTS.items()),
    *(EventSpec("agent", name, runs.RunEvent, False) for name in runs.SSE_TYPES),
    *(EventSpec("audit", name, audit.AuditRecord, False) for name in AUDIT_EVENTS),
    EventSpec(audit.SEAL_OWNER, audit.SEALED, audit.Sealed, True),
)

_COMMANDS = {(spec.owner, spec.name): spec for spec in COMMANDS}
_EVENTS = {(spec.owner, spec.name): spec for spec in EVENTS}


def command_spec(owner: str, name: str) -> CommandSpec:
    """Raises `KeyError` for a command that is not in the contracts."""
    return _COMMANDS[(owner, name)]


def event_spec(owner: str, name: str) -> EventSpec:
    """Raises `KeyError` for an event that is not in the contracts."""
    return _EVENTS[(owner, name)]


def approval_events() -> dict[str, type[Event]]:
    return dict(_APPROVAL_EVENTS)


def effect_events() -> dict[str, type[Event]]:
    return dict(_EFFECT_EVENTS)
