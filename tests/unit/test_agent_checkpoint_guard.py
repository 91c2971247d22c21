"""What may be written into a checkpoint, and what is refused (U2, U4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from langgraph.types import Interrupt, Send

from services.agent.adapters.checkpoints.guard import GuardedSerializer
from services.agent.domain.calls import Call, Ref
from services.agent.domain.evidence import Evidence
from services.agent.errors import UnsafeStateError


@dataclass
class Anything:
    text: str


CALL = Call("call-1", 1, "search_knowledge", {"query": "x"}, refs=(Ref("doc:v1:1", "doc", 1),)).as_json()


@pytest.mark.spec("U2")
@pytest.mark.parametrize(
    "state",
    [
        {"route": "fixed_rag", "calls": [CALL], "usage": {"steps": 1, "active_s": 0.5}},
        (Interrupt(value={"proposal_id": "prop-1"}, id="i"),),
        [Send("await_decision", {"call": CALL})],
        None,
        b"",
    ],
)
def test_plain_state_is_written_and_read_back(state: Any) -> None:
    serializer = GuardedSerializer()
    read = serializer.loads_typed(serializer.dumps_typed(state))
    assert read == (list(state) if isinstance(state, tuple) and not isinstance(read, tuple) else state)


@pytest.mark.spec("U4", "T11")
@pytest.mark.parametrize(
    "state",
    [
        {"evidence": Evidence("doc:v1:1", "doc", 1, "T", None, "SECRET")},
        {"calls": [CALL | {"receipt": {"items": [{"chunk_id": "doc:v1:1", "text": "SECRET"}]}}]},
        {"calls": [CALL | {"receipt": {"items": [{"chunk_id": "doc:v1:1", "snippet": "SECRET"}]}}]},
        [Anything("SECRET")],
        (Interrupt(value={"evidence": Anything("SECRET")}, id="i"),),
        [Send("await_decision", {"body": Anything("SECRET")})],
    ],
)
def test_evidence_or_any_object_in_the_state_is_refused(state: Any) -> None:
    with pytest.raises(UnsafeStateError) as raised:
        GuardedSerializer().dumps_typed(state)
    assert "SECRET" not in str(raised.value)


@pytest.mark.spec("U4")
def test_exception_is_written_as_its_name_only() -> None:
    _, written = GuardedSerializer().dumps_typed(ValueError("SECRET"))
    assert b"SECRET" not in written
    assert b"ValueError" in written


def test_state_nested_without_end_is_refused() -> None:
    nested: dict[str, Any] = {}
    for _ in range(20):
        nested = {"inner": nested}
    with pytest.raises(UnsafeStateError):
        GuardedSerializer().dumps_typed(nested)
