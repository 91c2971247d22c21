"""Every service, real: what becomes of a call whose run has ended, and of runs while a part is being replaced."""

from __future__ import annotations

import asyncio

import pytest

from placet.contracts.approvals import ProposeAction
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import ProposalView
from placet.testkit.waiting import until
from services.agent.adapters.graph.nodes import execute
from services.tool_executor.adapters.approvals import RpcApprovals
from tests.integration.approval_steps import ended, names
from tests.integration.whole_house import WholeHouse

REFUND = "Please refund order {order}, {amount}, it arrived broken."


class Slow:
    """The executor's way to the approval service, held `before` the command is sent or after it was `answered`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
        self.go = asyncio.Event()
        self.made: list[str] = []
        propose = RpcApprovals.propose

        async def held(self_: RpcApprovals, command: ProposeAction) -> ProposalView:
            self.made.append(command.proposal_id)
            if when == "before":
                await self.go.wait()
                return await propose(self_, command)
            view = await propose(self_, command)
            await self.go.wait()
            return view

        monkeypatch.setattr(RpcApprovals, "propose", held)


async def stored(house: WholeHouse, proposal_id: str) -> bool:
    """Whether the late proposal has come to the approval service."""
    try:
        return bool(await names(house.governance, proposal_id))
    except PlacetError as error:
        if error.code is not ErrorCode.NOT_FOUND:
            raise
        return False


@pytest.mark.spec("A1", "A10", "T4")
@pytest.mark.parametrize("when", ["before", "answered"])
async def test_proposal_of_a_run_that_has_given_up_on_its_call_waits_for_nobody(
    whole_house: WholeHouse, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    house, slow = whole_house, Slow(monkeypatch, when)
    monkeypatch.setattr(execute, "_ATTEMPTS", 1)
    await house.stop_agent()
    await house.start_agent(agent_max_wall_s=1.5)
    try:
        run_id = await house.ask("alice", REFUND.format(order="A1002", amount=3 if when == "before" else 4))
        done = await house.came_to("alice", run_id, "completed")
        assert done["finish_reason"] in ("failed", "limit_reached")
        slow.go.set()
        (proposal_id,) = slow.made
        await until(lambda: stored(house, proposal_id))
        await ended(house.governance, proposal_id)
        shown = [] if when == "before" else ["waiting-for-human"]
        assert await names(house.governance, proposal_id) == ["proposed", *shown, "cancelled", "completed"]
    finally:
        slow.go.set()
        await house.stop_agent()
        await house.start_agent()


@pytest.mark.spec("T4", "U2", "A8", "A10")
async def test_refund_outlives_the_replacement_of_the_executor_and_of_the_approval_service(
    whole_house: WholeHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor is away when it is asked for, the approval service when it is to be proposed."""
    house, rig = whole_house, whole_house.governance
    (order,) = await house.new_orders(1)
    monkeypatch.setattr(execute, "_ATTEMPTS", 2)
    await house.stop_agent()
    await house.start_agent(agent_max_failures=1)
    await rig.executor.stop()
    try:
        run_id = await house.ask("alice", REFUND.format(order=order, amount=7))
        await house.waits(run_id)
    finally:
        await rig.approval.stop()
        await rig.start_executor()

    async def at_the_approval() -> bool:
        answer = await house.as_("alice").get(f"/api/runs/{run_id}")
        return answer.status_code == 200 and answer.json()["node"] == "execute"

    try:
        await until(at_the_approval, timeout_s=60)
        await house.waits(run_id, 4)
    finally:
        await rig.start_approval()
    card = (await house.came_to("alice", run_id, "waiting_for_human"))["approval"]
    await rig.approve("dave", card["proposal_id"])
    done = await house.came_to("alice", run_id, "completed")
    assert done["finish_reason"] == "success"
    assert done["answer"].startswith(f"Done: 7 CNY was refunded for order {order}, refund R-")
    history = await names(rig, card["proposal_id"])
    assert [name for name in history if name != "viewed"] == ["proposed", "waiting-for-human", "approved", "completed"]
