"""A run that is taken up again: continue, plan anew, or give up; and what is withdrawn when rights change (U4, R4, B5).

The rows B5 and B10 have no text of their own in the specification; they are read as: a resumed run never acts on a plan
whose world has changed (B5), and a decision that has come is not asked for a second time (B10).
"""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.execution import ExecuteTool
from placet.contracts.proposals import FinishReason
from placet.contracts.tools import Route
from services.agent.domain.calls import Call, CallStatus, earlier_twin
from services.agent.domain.outcomes import closed
from services.agent.domain.resume import Parked, Verdict, reconsider, to_withdraw, toolset_version
from tests.integration.agent_fakes import completed, descriptor, proposal_of

THEN = {"graph": "g1", "prompt": "p1", "tools": "t1", "policy": "r1"}


@pytest.mark.spec("B5", "U4")
@pytest.mark.parametrize(
    ("changed", "verdict", "reasons"),
    [
        ({}, Verdict.CONTINUE, ()),
        ({"policy": "r2"}, Verdict.CONTINUE, ("policy_changed",)),
        ({"tools": "t2"}, Verdict.REPLAN, ("tools_changed",)),
        ({"prompt": "p2", "policy": "r2"}, Verdict.REPLAN, ("prompt_changed", "policy_changed")),
        ({"graph": "g2", "tools": "t2"}, Verdict.ABANDON, ("graph_changed", "tools_changed")),
        ({"tools": ""}, Verdict.CONTINUE, ()),
    ],
    ids=["same", "policy", "tools", "prompt", "graph", "unknown"],
)
def test_run_taken_up_in_another_world_goes_on_plans_anew_or_is_given_up(
    changed: dict[str, str], verdict: Verdict, reasons: tuple[str, ...]
) -> None:
    finding = reconsider(THEN, THEN | changed, active=True, evidence_gone=False)
    assert (finding.verdict, finding.reasons) == (verdict, reasons)


@pytest.mark.spec("R4", "U4")
def test_owner_who_has_left_ends_the_run_whatever_else_is_the_same() -> None:
    assert reconsider(THEN, THEN, active=False, evidence_gone=False).verdict is Verdict.ABANDON
    assert reconsider(THEN, THEN, active=None, evidence_gone=False).verdict is Verdict.CONTINUE


@pytest.mark.spec("U4", "R6")
def test_evidence_that_is_gone_makes_the_run_plan_anew() -> None:
    assert reconsider(THEN, THEN, active=True, evidence_gone=True).verdict is Verdict.REPLAN


@pytest.mark.spec("B5")
def test_toolset_is_another_one_when_a_name_a_version_or_a_schema_changes() -> None:
    refund, search = descriptor("refund_payment"), descriptor("search_knowledge")
    same = toolset_version([refund, search])
    assert toolset_version([search, refund]) == same
    changes = [
        [refund],
        [refund.model_copy(update={"version": "2"}), search],
        [refund.model_copy(update={"input_schema": {}}), search],
    ]
    assert len({same, *(toolset_version(tools) for tools in changes)}) == 4


PARKED = Parked(
    "run-1", "alice", "business_action", {"p1": ("doc-a:v1:1", "doc-b:v1:1"), "p2": (), "p3": ("doc-c:v1:1",)}
)


@pytest.mark.spec("R4", "U4")
def test_proposals_that_rest_on_what_is_gone_are_withdrawn_and_no_others() -> None:
    assert to_withdraw(PARKED, ["doc-a:v1:1", "doc-c:v1:1"], active=True) == ("p1",)
    assert to_withdraw(PARKED, PARKED.chunks, active=True) == ()
    assert to_withdraw(PARKED, PARKED.chunks, active=None) == ()
    assert to_withdraw(PARKED, PARKED.chunks, active=False) == ("p1", "p2", "p3")


@pytest.mark.spec("R4")
@pytest.mark.parametrize(
    ("kind", "name", "concerned"),
    [
        ("person", "alice", True),
        ("person", "bob", False),
        ("document", "doc-b", True),
        ("document", "doc", False),
        ("knowledge_base", "kb", True),
        ("", "", True),
    ],
)
def test_change_of_a_person_or_a_document_concerns_the_runs_it_can_touch(kind: str, name: str, concerned: bool) -> None:
    assert PARKED.concerned_by(kind, name) is concerned


@pytest.mark.spec("B10", "A10")
def test_run_that_is_given_up_still_tells_the_decision_that_has_come() -> None:
    command = ExecuteTool(grant="g", call_id="call-1", tool="refund_payment", args={}, route=Route.BUSINESS_ACTION)

    def refund(name: str, **changes: Any) -> Call:
        return Call(name, 1, "refund_payment", {"order_id": name}, reads=False, **changes)

    calls = [
        refund("call-1", status=CallStatus.WAITING, proposal_id=proposal_of(command)),
        refund("call-2", status=CallStatus.WAITING, proposal_id="prop-2"),
        refund("call-3"),
        Call("call-4", 1, "search_knowledge", {}, status=CallStatus.OK),
    ]
    ended = closed(calls, completed(command, "run-1", FinishReason.SUCCESS))
    assert [call.status.value for call in ended] == ["ok", "cancelled", "dropped", "ok"]


@pytest.mark.spec("B5", "W8")
def test_call_that_was_dropped_answers_no_identical_one() -> None:
    dropped = Call("call-1", 1, "refund_payment", {"order_id": "A1"}, reads=False, status=CallStatus.DROPPED)
    assert earlier_twin([dropped], "refund_payment", {"order_id": "A1"}) is None
