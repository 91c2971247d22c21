"""Publish proposals: which document and version they are bound to, and how their end is answered."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import DecisionNote, ProposalNote, ToolReply
from placet.contracts.proposals import (
    ApprovalCount,
    FinishReason,
    ProposalStatus,
    ProposalView,
    ResourceRef,
    Rollback,
)
from placet.contracts.tools import Risk
from placet.testkit.builders import DIGEST, NOON
from services.gateway.domain import publishing


def view(**changes: Any) -> ProposalView:
    fields: dict[str, Any] = {
        "proposal_id": "prop-1",
        "status": ProposalStatus.PENDING,
        "finish_reason": None,
        "tool": publishing.DECIDE_TOOL,
        "title": "Publish",
        "summary": "Publish v2",
        "arguments": {"document_id": "doc-1", "version": 2, "lock_version": 7},
        "digest": DIGEST,
        "intent": "",
        "lineage": (),
        "authors": (),
        "resource": ResourceRef(type="document", id="doc-9", version="3"),
        "permissions": (),
        "blast_radius": (),
        "preview": (),
        "rollback": Rollback(),
        "risk": Risk.HIGH,
        "policy_revision": "sha256:x",
        "idempotency_key": "eff-1",
        "requester": "carol",
        "run_id": None,
        "request_id": "req-1",
        "approvals": ApprovalCount(needed=1),
        "challenge": None,
        "created_at": NOON,
        "expires_at": NOON,
        "outcome": None,
    }
    return ProposalView(**(fields | changes))


def reply(**changes: Any) -> ToolReply:
    note = DecisionNote(effect="require_approval", risk=Risk.HIGH, policy_revision="r")
    fields: dict[str, Any] = {
        "call_id": "c",
        "tool": publishing.PROPOSE_TOOL,
        "status": "ok",
        "decision": note,
        "proposal": None,
    }
    return ToolReply(**(fields | changes))


@pytest.mark.spec("A11")
def test_lock_version_bound_in_the_arguments_comes_first() -> None:
    assert publishing.lock_version(view()) == 7
    assert publishing.document_id(view()) == "doc-1"


def test_lock_version_without_argument_is_the_resource_version() -> None:
    bare = view(arguments={})
    assert (publishing.lock_version(bare), publishing.document_id(bare)) == (3, "doc-9")


def test_lock_version_of_a_resource_without_number_is_unknown() -> None:
    assert publishing.lock_version(view(arguments={}, resource=None)) is None


def test_proposal_id_is_taken_from_the_gate_or_from_the_result() -> None:
    note = ProposalNote(proposal_id="p1", tool="t", title="T", risk=Risk.HIGH, expires_at="2026-11-30T12:00:00Z")
    assert publishing.proposal_id_of(reply(status="waiting_for_human", proposal=note)) == "p1"
    assert publishing.proposal_id_of(reply(result={"proposal_id": "p2"})) == "p2"
    assert publishing.proposal_id_of(reply(result={})) is None


@pytest.mark.spec("A11")
def test_answer_superseded_is_a_conflict() -> None:
    with pytest.raises(PlacetError) as caught:
        publishing.answer("prop-1", "completed", FinishReason.SUPERSEDED)
    assert caught.value.code is ErrorCode.CONFLICT


@pytest.mark.parametrize("reason", [FinishReason.SUCCESS, FinishReason.REJECTED, FinishReason.FAILED])
def test_answer_any_other_end_is_told(reason: FinishReason) -> None:
    assert publishing.answer("p", "completed", reason)["finish_reason"] == reason.value


def test_answer_not_ended_yet_has_no_finish_reason() -> None:
    assert publishing.answer("p", "executing", None) == {
        "proposal_id": "p",
        "status": "executing",
        "finish_reason": None,
    }
