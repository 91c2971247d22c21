"""The executor's pure decisions: untrusted arguments, packets and drift, masking, the ledger's states."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import ResourceRef
from placet.contracts.tools import IDENTITY_FIELDS
from placet.testkit.builders import packet
from services.tool_executor.domain.arguments import strip_identity
from services.tool_executor.domain.ledger import NOT_EXECUTED, Entry, State, advance, fold
from services.tool_executor.domain.masking import MASK, masked
from services.tool_executor.domain.packet import described, drift, gone

COMMON: dict[str, Any] = {
    "key": "eff-1",
    "tool": "refund_payment",
    "tenant": "acme",
    "requester": "alice",
    "call_id": "call-1",
    "request_id": "req-1",
}
CLAIMED = ev.Claimed(**COMMON, args_digest="d", arguments={}, worker="w")
EXECUTED = ev.Executed(**COMMON, result={"refund_id": "R1"})
FAILED = ev.Failed(**COMMON, code="conflict", message="moved")
UNKNOWN = ev.Unknown(**COMMON, reason="lost")
VERIFIED = ev.Verified(**COMMON, result={"refund_id": "R1"})


@pytest.mark.spec("T3", "I2")
@pytest.mark.parametrize("name", sorted(IDENTITY_FIELDS))
def test_identity_fields_are_stripped_at_every_depth_in_any_case(name: str) -> None:
    stripped = strip_identity({"order_id": "A1", name.upper(): "mallory", "deep": [{"x": {name: 1, "y": 2}}]})
    assert stripped.arguments == {"order_id": "A1", "deep": [{"x": {"y": 2}}]}
    assert len(stripped.removed) == 2


def test_arguments_nested_without_end_are_refused() -> None:
    value: Any = {}
    for _ in range(40):
        value = {"x": value}
    with pytest.raises(PlacetError) as caught:
        strip_identity(value)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS


@pytest.mark.spec("B1", "A8")
def test_drift_names_what_moved_since_signing() -> None:
    signed = packet()
    assert drift(signed, signed) == {}
    moved = signed.model_copy(
        update={"resource": ResourceRef(type="order", id="A1001", version="2"), "policy_revision": "sha256:p2"}
    )
    assert drift(signed, moved) == {
        "resource": {"signed": "order/A1001@1", "now": "order/A1001@2"},
        "policy_revision": {"signed": signed.policy_revision, "now": "sha256:p2"},
    }


@pytest.mark.spec("B1")
def test_drift_of_a_resource_names_the_facts_a_person_knows() -> None:
    """Not "version 3 is now version 4", but what that means: of 299 only 100 can still be refunded."""
    facts = {"refundable": "299.00", "state": "delivered", "served_by": ["alice"]}
    signed = packet(facts=facts)
    moved = packet(facts=facts | {"refundable": "100.00"}, resource=ResourceRef(type="order", id="A1001", version="2"))
    diff = drift(signed, moved)
    assert diff["resource.refundable"] == {"signed": "299.00", "now": "100.00"}
    assert set(diff) == {"resource", "resource.refundable"}
    assert described(diff) == "What was approved is not what is there now: refundable: 299.00 → 100.00."
    assert gone(signed) == {"resource": {"signed": "order/A1001@1", "now": "none"}}


@pytest.mark.spec("G8")
def test_what_turned_out_not_to_have_happened_is_answered_with_a_code_of_the_closed_set() -> None:
    with pytest.raises(PlacetError) as caught:
        fold([(1, CLAIMED), (2, UNKNOWN), (3, ev.Failed(**COMMON, code=NOT_EXECUTED, message="no"))]).answer()
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


@pytest.mark.spec("G3")
def test_masking_replaces_named_fields_at_every_depth_and_nothing_else() -> None:
    value = {"items": [{"email": "a@b.c", "name": "A", "phone": None}], "email": "x"}
    assert masked(value, ("email", "phone")) == {"items": [{"email": MASK, "name": "A", "phone": None}], "email": MASK}
    assert masked(value, ()) is value


@pytest.mark.spec("G8")
def test_ledger_answers_a_repetition_with_the_first_result_or_failure() -> None:
    assert fold([(1, CLAIMED), (2, EXECUTED), (3, VERIFIED)]).answer() == {"refund_id": "R1"}
    with pytest.raises(PlacetError) as failed:
        fold([(1, CLAIMED), (2, FAILED)]).answer()
    assert failed.value.code is ErrorCode.CONFLICT
    for history in ([(1, CLAIMED)], [(1, CLAIMED), (2, UNKNOWN)]):
        with pytest.raises(PlacetError) as unknown:
            fold(history).answer()
        assert unknown.value.code is ErrorCode.OUTCOME_UNKNOWN


@pytest.mark.spec("G8")
@given(st.lists(st.sampled_from([CLAIMED, EXECUTED, FAILED, UNKNOWN, VERIFIED]), max_size=8))
def test_ledger_fold_is_the_same_event_by_event(history: list[Event]) -> None:
    entry = Entry()
    for seq, event in enumerate(history, 1):
        entry = advance(entry, seq, event)
    assert fold(enumerate(history, 1)) == entry
    assert entry.last_seq == len(history)
    assert (entry.state is State.NOT_EXECUTED) == (not history)
