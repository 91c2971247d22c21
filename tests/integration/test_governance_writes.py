"""Writes that run at once: once, looked up when in doubt, and settled by people when nobody can tell (G8, W9)."""

from __future__ import annotations

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.observability.context import new_id
from tests.integration.call_steps import refused
from tests.integration.governance_rig import GovernanceRig
from tests.integration.odd_tools import OddPack


@pytest.mark.spec("G8", "W9")
async def test_write_at_once_with_the_same_call_id_takes_effect_once(governance: GovernanceRig) -> None:
    call_id = new_id("call")
    args = {"order_id": "A1007", "note": "customer called"}
    first = await governance.execute("alice", "add_order_note", args, call_id=call_id)
    again = await governance.execute("alice", "add_order_note", args, call_id=call_id)
    assert (first.repeated, again.repeated) == (False, True)
    assert first.result == again.result
    assert first.idempotency_key == again.idempotency_key


@pytest.mark.spec("G8", "W9")
@pytest.mark.parametrize("mode", ["lost", "slow"])
async def test_outcome_lost_after_the_effect_is_found_by_lookup(governance: GovernanceRig, mode: str) -> None:
    reply = await governance.execute("alice", "odd_write", {"mode": mode})
    assert reply.status == "ok"
    assert OddPack.effects[str(reply.idempotency_key)] == 1


@pytest.mark.spec("G8", "T4")
async def test_retryable_failure_then_the_same_call_again_takes_effect_once(governance: GovernanceRig) -> None:
    call_id = new_id("call")
    error = await refused(governance, "alice", "odd_write", {"mode": "down"}, call_id=call_id)
    assert error.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    reply = await governance.execute("alice", "odd_write", {"mode": "down"}, call_id=call_id)
    assert OddPack.effects[str(reply.idempotency_key)] == 1


@pytest.mark.spec("G8", "T4")
async def test_outcome_that_nobody_can_look_up_blocks_the_key_until_it_is_settled(governance: GovernanceRig) -> None:
    call_id = new_id("call")
    for _ in range(2):
        error = await refused(governance, "alice", "odd_blind_write", {"mode": "lost"}, call_id=call_id)
        assert error.code is ErrorCode.OUTCOME_UNKNOWN
    key = await _unknown_key(governance, call_id)
    assert OddPack.effects[key] == 1
    settled = await governance.settle("dave", key, "executed")
    assert settled.state == "executed"
    with pytest.raises(PlacetError) as denied:
        await governance.settle("alice", key, "executed")
    assert denied.value.code is ErrorCode.PERMISSION_DENIED
    with pytest.raises(PlacetError) as twice:
        await governance.settle("erin", key, "not_executed")
    assert twice.value.code is ErrorCode.ALREADY_DECIDED
    [record] = [entry.record for entry in (await governance.audit(type="effect-finished", actor="dave")).items]
    assert (record.outcome, record.idempotency_key, record.note) == ("executed", key, "checked by hand")
    answered = await governance.execute("alice", "odd_blind_write", {"mode": "lost"}, call_id=call_id)
    assert (answered.repeated, OddPack.effects[key]) == (True, 1)


@pytest.mark.spec("G8", "G12", "I3")
async def test_settling_what_cannot_be_settled_is_refused_and_tells_nothing(governance: GovernanceRig) -> None:
    done = await governance.execute("alice", "odd_write", {"mode": "ok"})

    async def settling(person: str, key: str, tenant: str = "acme") -> tuple[ErrorCode, str]:
        with pytest.raises(PlacetError) as caught:
            await governance.settle(person, key, "executed", tenant=tenant)
        return caught.value.code, caught.value.message

    key = str(done.idempotency_key)
    assert (await settling("dave", key))[0] is ErrorCode.CONFLICT
    absent = await settling("dave", "eff-" + "0" * 40)
    assert absent[0] is ErrorCode.NOT_FOUND
    assert await settling("dave", "no/such key.*") == absent
    refusals = {await settling(who, which) for who in ("alice", "mike", "auditor") for which in (key, "eff-none")}
    assert {code for code, _ in refusals} == {ErrorCode.PERMISSION_DENIED}
    assert len(refusals) == 1


@pytest.mark.spec("G8", "G12")
async def test_effect_settled_as_not_executed_answers_its_repetition_with_a_known_code(
    governance: GovernanceRig,
) -> None:
    call_id = new_id("call")
    call = ("alice", "odd_blind_write", {"mode": "lost"})
    assert (await refused(governance, *call, call_id=call_id)).code is ErrorCode.OUTCOME_UNKNOWN
    key = await _unknown_key(governance, call_id)
    assert (await governance.settle("erin", key, "not_executed")).state == "failed"
    assert (await refused(governance, *call, call_id=call_id)).code is ErrorCode.DEPENDENCY_UNAVAILABLE
    assert OddPack.effects[key] == 1


async def _unknown_key(governance: GovernanceRig, call_id: str) -> str:
    ledger = governance.effects_reader()
    events = await ledger.page("placet.acme.tool-executor.evt.unknown.v1.*", after=0, limit=100)
    return next(event.entity for event in events if event.envelope.data["call_id"] == call_id)


@pytest.mark.spec("A9")
async def test_effect_that_reads_back_wrong_is_known_bad_with_its_rollback(governance: GovernanceRig) -> None:
    error = await refused(governance, "alice", "odd_write", {"mode": "unverified"})
    assert error.code is ErrorCode.CONFLICT
    events = await governance.effects_reader().page(
        "placet.acme.tool-executor.evt.verification-failed.v1.*", after=0, limit=100
    )
    rollback = events[-1].envelope.data["rollback"]
    assert (rollback["tool"], rollback["arguments"]) == ("odd_write", {"mode": "ok"})
