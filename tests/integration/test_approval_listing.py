"""The listing: a projection that shows what runs, and can be thrown away (A1)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text

from placet.contracts.proposals import ProposalStatus
from placet.observability.context import new_id
from placet.storage import OWNER
from placet.testkit.waiting import until
from services.approval.app import rebuild_listing
from services.tool_executor.handlers.effects import EffectRunner
from tests.integration.approval_steps import PATIENCE_S, ask_refund, asked, ended
from tests.integration.governance_rig import GovernanceRig


async def statuses(rig: GovernanceRig, **filters: Any) -> dict[str, ProposalStatus]:
    page = await rig.proposals("dave", limit=200, **filters)
    return {item.proposal_id: item.status for item in page.items}


@pytest.mark.spec("A1", "A8")
async def test_proposal_that_is_being_executed_is_listed_as_such(
    governance: GovernanceRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Held between claim and effect."""
    execute, go_on = EffectRunner._execute, asyncio.Event()

    async def held(runner: EffectRunner, *arguments: Any, **named: Any) -> Any:
        await go_on.wait()
        return await execute(runner, *arguments, **named)

    monkeypatch.setattr(EffectRunner, "_execute", held)
    proposal_id = await asked(governance, "alice", "odd_gated_write", {"mode": new_id("ok")})
    await governance.approve("dave", proposal_id)

    async def running() -> bool:
        return (await statuses(governance, status="executing")).get(proposal_id) is ProposalStatus.EXECUTING

    await until(running, timeout_s=PATIENCE_S, what="the listing of what runs")
    assert (await statuses(governance))[proposal_id] is ProposalStatus.EXECUTING
    assert proposal_id not in await statuses(governance, status="approved")
    assert proposal_id not in await statuses(governance, status="pending")
    go_on.set()
    await ended(governance, proposal_id)

    async def completed() -> bool:
        return proposal_id in await statuses(governance, status="completed")

    await until(completed, timeout_s=PATIENCE_S, what="the listing of what has ended")
    assert proposal_id not in await statuses(governance, status="executing")


@pytest.mark.spec("A2")
async def test_listing_that_was_lost_is_made_anew_from_the_stream(governance: GovernanceRig) -> None:
    waiting = await ask_refund(governance)
    rejected = await ask_refund(governance)
    await governance.decide("dave", rejected, "reject")

    async def there() -> bool:
        found = await statuses(governance)
        return found.get(waiting) is ProposalStatus.PENDING and found.get(rejected) is ProposalStatus.COMPLETED

    await until(there, timeout_s=PATIENCE_S, what="both in the listing")
    before = await statuses(governance)
    async with governance.postgres.database(OWNER).transaction() as connection:
        await connection.execute(text("DELETE FROM proposals.listing"))
    assert await statuses(governance) == {}
    assert await rebuild_listing(governance.approval_settings()) >= 2
    after = await statuses(governance)
    assert {key: after[key] for key in (waiting, rejected)} == {key: before[key] for key in (waiting, rejected)}
    assert await rebuild_listing(governance.approval_settings()) >= 2
    assert await statuses(governance) == after


@pytest.mark.spec("A4", "I3")
async def test_listing_holds_what_one_asked_for_and_what_ones_roles_decide_and_nothing_else(
    governance: GovernanceRig,
) -> None:
    mine = await ask_refund(governance)
    ticket = {"title": "t", "priority": "low", "team": "support", "description": new_id("d")}
    own = await asked(governance, "bob", "create_ticket", ticket)

    async def listed(person: str) -> set[str]:
        page = await governance.proposals(person, status="pending", limit=200)
        return {item.proposal_id for item in page.items} & {mine, own}

    async def there() -> bool:
        return (await listed("alice"), await listed("dave"), await listed("bob")) == ({mine}, {mine}, {own})

    await until(there, timeout_s=PATIENCE_S, what="each their own")
    assert await listed("carol") == await listed("auditor") == await listed("mike") == set()
