"""What an approved action rests on may go before it is executed: then it is not (R4, A8)."""

from __future__ import annotations

import pytest

from placet.contracts.proposals import FinishReason
from placet.knowledge.models import Acl
from placet.observability.context import new_id
from tests.integration.approval_steps import asked, ended, names
from tests.integration.governance_rig import GovernanceRig
from tests.integration.knowledge_world import add_document
from tests.integration.odd_tools import OddPack


async def resting_on(rig: GovernanceRig, *lineage: str) -> str:
    """A proposal that says that this was read before it was made."""
    return await asked(rig, "alice", "odd_gated_write", {"mode": new_id("ok")}, lineage=lineage, authors=("carol",))


@pytest.mark.spec("A8", "A10", "R4", "R6")
async def test_action_whose_evidence_went_between_approval_and_execution_is_superseded_and_others_are_executed(
    apart: GovernanceRig,
) -> None:
    store = apart.postgres.knowledge()
    closed, replaced, kept = new_id("closed"), new_id("replaced"), new_id("kept")
    for document in (closed, replaced, kept):
        await add_document(store, "acme", document, f"# Rule\n\nThe rule of {document}.", base_id="kb-policies")
    rest = {
        "closed": (f"{kept}:v1:chunk-01", f"{closed}:v1:chunk-01"),
        "replaced": (f"{replaced}:v1:chunk-01",),
        "kept": (f"{kept}:v1:chunk-01", f"{kept}:v1"),
        "invented": (f"{kept}:v7:chunk-01",),
        "no evidence": ("anything",),
        "nothing": (),
    }
    proposals = {name: await resting_on(apart, *lineage) for name, lineage in rest.items()}
    await apart.executor.stop()
    try:
        for proposal_id in proposals.values():
            await apart.approve("dave", proposal_id)
        await store.set_acl("acme", closed, Acl(roles=frozenset({"c_level"})))
        await add_document(store, "acme", replaced, "# Rule\n\nAnother rule.", base_id="kb-policies")
    finally:
        await apart.start_executor()
    ends = {name: (await ended(apart, proposal_id)) for name, proposal_id in proposals.items()}
    assert {name: view.finish_reason for name, view in ends.items()} == {
        "closed": FinishReason.SUPERSEDED,
        "replaced": FinishReason.SUPERSEDED,
        "kept": FinishReason.SUCCESS,
        "invented": FinishReason.SUPERSEDED,
        "no evidence": FinishReason.SUPERSEDED,
        "nothing": FinishReason.SUCCESS,
    }
    took_effect = {name: OddPack.effects[view.idempotency_key] for name, view in ends.items()}
    assert took_effect == {name: int(name in ("kept", "nothing")) for name in rest}
    assert (await names(apart, proposals["closed"]))[-2:] == ["superseded", "completed"]
    outcome = ends["closed"].outcome or {}
    assert outcome["diff"] == {"evidence": {"signed": sorted(rest["closed"]), "now": [f"{kept}:v1:chunk-01"]}}
    assert "may not be read any more" in outcome["message"]
