"""What a model writes as a tool call: anything at all, and none of it ends a run (U3, T3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.execution import ExecuteTool
from placet.contracts.tools import Route
from services.agent.adapters.checkpoints.guard import GuardedSerializer
from services.agent.domain.calls import Call, call_id, fingerprint
from services.agent.domain.wanted import problem_of, tool_name


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.spec("U3")
@pytest.mark.parametrize(
    "args",
    [
        None,
        [],
        "text",
        7,
        deep(12),
        {"x": float("nan")},
        {"x": 10**400},
        {"x": "\ud800"},
        {"x": "a" * 40_000},
        {"x": [{"chunk_id": "d:v1:1", "text": "t"}]},
    ],
    ids=["none", "list", "text", "number", "deep", "nan", "huge", "surrogate", "large", "evidence"],
)
def test_arguments_that_can_be_neither_kept_nor_sent_are_the_model_s_own_mistake(args: Any) -> None:
    assert problem_of(args)


@pytest.mark.spec("U3")
@given(
    st.dictionaries(st.text(max_size=8), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
)
def test_arguments_without_a_problem_can_be_fingerprinted_sent_and_kept(args: dict[str, Any]) -> None:
    if problem_of(args):
        return
    assert len(fingerprint("t", args)) == 64
    ExecuteTool(grant="g", call_id=call_id("run-1", 1, 0, "t", args), tool="t", args=args, route=Route.BUSINESS_ACTION)
    kept = Call("call-1", 1, "t", args).as_json()
    serializer = GuardedSerializer()
    assert serializer.loads_typed(serializer.dumps_typed([kept])) == [kept]
    json.dumps(args, ensure_ascii=False).encode()


@pytest.mark.spec("T2")
@given(st.one_of(st.none(), st.integers(), st.text(max_size=400)))
def test_name_of_a_tool_whatever_it_is_can_be_asked_for(written: Any) -> None:
    name = tool_name(written)
    assert 0 < len(name) <= 200
    name.encode()
