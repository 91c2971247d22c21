"""Calls of a run: their identity, their order, and the limits they are counted against (U3, W8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placet.contracts.proposals import FinishReason
from services.agent.domain.calls import Call, CallStatus, Ref, call_id, earlier_twin, merged
from services.agent.domain.limits import Limits, Usage, added, reached
from tests.unit.agent_values import REFUND, SEARCH, ended


def test_call_as_json_read_back_is_the_same_call() -> None:
    call = replace(
        ended(FinishReason.SUCCESS, edited=True, arguments={"order_id": "A1001", "amount": 200, "reason": "broken"}),
        refs=(Ref("doc:v1:1", "doc", 1, ("carol",), False),),
        problems=({"field": "amount", "problem": "too much"},),
    )
    assert Call.from_json(call.as_json()) == call


@pytest.mark.spec("U3", "W8")
def test_identical_call_in_any_argument_order_is_answered_from_the_first() -> None:
    reordered = {"reason": "broken", "amount": 299, "order_id": "A1001"}
    assert earlier_twin([SEARCH, REFUND], "refund_payment", reordered) == REFUND
    assert earlier_twin([SEARCH, REFUND], "refund_payment", reordered | {"amount": 298}) is None


def test_call_id_of_the_same_plan_is_the_same_and_of_another_run_is_not() -> None:
    ids = {call_id(run, 1, 0, "t", {"a": 1}) for run in ("run-1", "run-1", "run-2")}
    assert len(ids) == 2


def test_calls_merged_keep_their_order_and_take_the_newer_state() -> None:
    old = [SEARCH.as_json(), REFUND.as_json()]
    new = merged(old, [replace(SEARCH, status=CallStatus.OK).as_json()])
    assert [(c["call_id"], c["status"]) for c in new] == [("call-0", "ok"), ("call-1", "planned")]


@pytest.mark.spec("U3")
@pytest.mark.parametrize(
    ("usage", "limit"),
    [
        (Usage(steps=8), "steps"),
        (Usage(tool_calls=12), "tool_calls"),
        (Usage(tokens=60_000), "tokens"),
        (Usage(active_s=120.0), "wall_s"),
        (Usage(steps=7, tool_calls=11, tokens=59_999, active_s=119.9), None),
    ],
)
def test_limit_when_used_up_allows_no_further_round(usage: Usage, limit: str | None) -> None:
    assert reached(usage, Limits()) == limit


def test_counters_of_nodes_are_added_not_overwritten() -> None:
    assert added({"steps": 1, "active_s": 0.5}, {"steps": 1, "tokens": 9}) == {"active_s": 0.5, "steps": 2, "tokens": 9}
