"""A decision whose answer was lost is said again: it is answered, stands once, and is nobody else's."""

from __future__ import annotations

from typing import Any

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import ProposalStatus
from placet.messaging.kv import KeyValue
from placet.observability.context import new_id
from services.gateway.domain.idempotency import storage_key
from tests.integration.approval_steps import ask_refund, asked, ended, names, refused
from tests.integration.document_house import DocumentHouse
from tests.integration.governance_rig import GovernanceRig, answers_to

pytestmark = pytest.mark.spec("A2", "W9")


@pytest.mark.parametrize(
    ("decision", "more", "event"),
    [
        ("approve", {}, "approved"),
        ("edit", {"args": {"mode": "ok-edited"}}, "edited"),
        ("reject", {"message": "not now"}, "rejected"),
        ("respond", {"message": "call them first"}, "responded"),
    ],
)
async def test_decision_said_again_under_its_name_is_answered_and_written_once(
    governance: GovernanceRig, decision: str, more: dict[str, Any], event: str
) -> None:
    proposal_id = await asked(governance, "alice", "odd_gated_write", {"mode": new_id("ok")})
    digest, name = (await governance.proposal("dave", proposal_id)).digest, new_id("decision")
    first = await governance.decide("dave", proposal_id, decision, digest=digest, decision_id=name, **more)
    await ended(governance, proposal_id)
    again = await governance.decide("dave", proposal_id, decision, digest=digest, decision_id=name, **more)
    assert (again.proposal_id, again.digest, again.status) == (proposal_id, first.digest, ProposalStatus.COMPLETED)
    assert (await names(governance, proposal_id)).count(event) == 1
    for other in ({"decision_id": new_id("decision")}, {}):
        late = await refused(governance.decide("dave", proposal_id, decision, digest=digest, **other, **more))
        assert late.code is ErrorCode.ALREADY_DECIDED
    hidden = await refused(governance.decide("bob", proposal_id, decision, digest=digest, decision_id=name, **more))
    assert hidden.code is ErrorCode.NOT_FOUND


async def test_first_of_two_approvals_said_again_counts_once(governance: GovernanceRig) -> None:
    proposal_id = await ask_refund(governance, "A2001", 600)
    view, name = await governance.proposal("dave", proposal_id), new_id("decision")
    for _ in range(2):
        result = await governance.decide(
            "dave", proposal_id, digest=view.digest, answers=answers_to(view), decision_id=name
        )
        assert result.status is ProposalStatus.PENDING
    assert [given.by for given in (await governance.proposal("dave", proposal_id)).approvals.given] == ["dave"]
    await governance.decide("erin", proposal_id, "reject")


async def test_decision_over_http_whose_answer_was_lost_is_answered_under_the_same_key(
    document_house: DocumentHouse,
) -> None:
    """As when the bus dies in the middle: the decision is stored, and the gateway has kept no answer."""
    rig = document_house.governance
    proposal_id = await asked(rig, "alice", "odd_gated_write", {"mode": new_id("ok")})
    dave, path = document_house.as_("dave"), f"/api/proposals/{proposal_id}/decisions"
    body = {"decision": "approve", "digest": (await rig.proposal("dave", proposal_id)).digest}
    key = new_id("key")
    assert (await dave.post(path, json=body, headers={"Idempotency-Key": key})).status_code == 200
    kept, bucket = (
        storage_key("acme", "dave", "POST", path, key),
        KeyValue(await rig.nats.bus("gateway"), "IDEMPOTENCY"),
    )
    entry = await bucket.get(kept)
    assert entry is not None
    await bucket.delete(kept, entry.revision)
    again = await dave.post(path, json=body, headers={"Idempotency-Key": key})
    assert (again.status_code, again.json()["proposal_id"]) == (200, proposal_id)
    assert (await dave.post(path, json=body, headers={"Idempotency-Key": new_id("key")})).status_code == 409
    assert (await names(rig, proposal_id)).count("approved") == 1
