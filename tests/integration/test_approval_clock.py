"""Expiry after restarts of everything, and on replicas whose clocks are two minutes wrong (A7)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode
from placet.contracts.proposals import FinishReason, ProposalStatus
from placet.observability.context import new_id
from placet.testkit.waiting import until
from services.approval.app import build
from tests.integration.approval_steps import PATIENCE_S, ask_refund, asked, ended, policy, refused, settled
from tests.integration.governance_rig import GovernanceRig, answers_to

pytestmark = pytest.mark.spec("A7", "T12")
SHORT_S, LONG_S = 2, 100  # both shorter than the clocks are wrong


@pytest.fixture
async def hasty(apart: GovernanceRig) -> AsyncIterator[GovernanceRig]:
    """Refunds expire at once, odd writes in a while."""

    def sooner(agreements: dict[str, Any]) -> None:
        agreements["finance"]["obligations"]["ttl_s"] = SHORT_S
        agreements["finance_plain"]["obligations"]["ttl_s"] = LONG_S

    with policy(apart, "agreements", sooner):
        await settled(apart)
        yield apart


def _wrong(minutes: int) -> Any:
    def clock() -> datetime:
        return now() + timedelta(minutes=minutes)

    return clock


@pytest.mark.parametrize("minutes", [-2, 2])
async def test_replica_whose_clock_is_two_minutes_wrong_decides_and_expires_as_any_other(
    hasty: GovernanceRig, minutes: int
) -> None:
    await hasty.approval.stop()
    hasty.approval = await build(hasty.approval_settings(), clock=_wrong(minutes))
    await hasty.approval.start()
    try:
        started = now()
        short = await ask_refund(hasty)
        long = await asked(hasty, "alice", "odd_gated_write", {"mode": new_id("ok")})
        view = await hasty.proposal("alice", long)
        assert timedelta(0) <= view.expires_at - started - timedelta(seconds=LONG_S) < timedelta(seconds=60)
        assert (await hasty.approve("dave", long)).status is ProposalStatus.APPROVED
        assert (await ended(hasty, long)).finish_reason is FinishReason.SUCCESS
        assert (await ended(hasty, short)).finish_reason is FinishReason.EXPIRED
    finally:
        await hasty.approval.stop()
        hasty.approval = await build(hasty.approval_settings())
        await hasty.approval.start()


async def test_timer_armed_before_bus_and_service_were_killed_expires_the_proposal(hasty: GovernanceRig) -> None:
    """Nothing executes, a late decision is told so, and the listing catches up by itself."""
    proposal_id = await ask_refund(hasty)
    shown = await hasty.proposal("alice", proposal_id)
    await hasty.approval.stop()
    hasty.nats.kill9()
    await hasty.nats.start_bare()
    hasty.approval = await build(hasty.approval_settings())
    await hasty.approval.start()
    view = await ended(hasty, proposal_id)
    assert view.finish_reason is FinishReason.EXPIRED
    late = await refused(hasty.decide("dave", proposal_id, digest=shown.digest, answers=answers_to(shown)))
    assert late.code is ErrorCode.EXPIRED
    assert (await ended(hasty, proposal_id)) == view
    effects = await hasty.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
    assert effects == []

    async def listed() -> bool:
        page = await hasty.proposals("dave", status="completed", limit=50)
        return any(item.proposal_id == proposal_id for item in page.items)

    await until(listed, timeout_s=PATIENCE_S, what="the listing after the restart")
