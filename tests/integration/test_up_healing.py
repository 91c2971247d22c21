"""Any child of `placet up` may be killed at any time: it is started again and an approved refund happens once."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import psutil
import pytest

from placet.client import PlacetClient
from placet.testkit.placet_process import PlacetProcess, running
from placet.testkit.refunds import Asked, approve, ask, finished, refunds

pytestmark = pytest.mark.chaos

CHILDREN = ("gateway", "agent", "tool-executor", "approval", "memory", "nats", "postgres", "opa")


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[PlacetProcess]:
    """A house of this module alone: its children are killed."""
    async for placet in running():
        yield placet


def amount_for(child: str, when: int) -> str:
    """An amount of its own per test, so that each finds its own refund."""
    return str(10 + 10 * when + CHILDREN.index(child))


def need(house: PlacetProcess, child: str) -> None:
    if child not in house.pids():
        pytest.skip("no opa on this machine: the embedded engine decides")


@pytest.mark.timeout(240)
@pytest.mark.spec("A10")
@pytest.mark.parametrize("child", CHILDREN)
async def test_killed_child_is_started_again_and_a_refund_works(house: PlacetProcess, child: str) -> None:
    need(house, child)
    others = {name: pid for name, pid in house.pids().items() if name != child}
    await house.kill(child)
    assert {name: pid for name, pid in house.pids().items() if name != child} == others
    amount = amount_for(child, 0)
    async with house.client("alice") as alice, house.client("dave") as dave:
        asked = await ask(alice, "A1004", amount)
        await approve(dave, asked.proposal_id)
        assert (await finished(alice, asked))["finish_reason"] == "success"
        assert (await refunds(alice, "A1004")).count(float(amount)) == 1


@pytest.mark.timeout(240)
@pytest.mark.spec("A10", "G8")
@pytest.mark.parametrize("child", CHILDREN)
async def test_child_killed_while_the_refund_waits_changes_nothing_about_it(house: PlacetProcess, child: str) -> None:
    need(house, child)
    amount = amount_for(child, 1)
    async with house.client("alice") as alice, house.client("dave") as dave:
        asked = await ask(alice, "A1005", amount)
        await house.kill(child)
        assert (await alice.runs.get(asked.run_id)).status == "waiting_for_human"
        await approve(dave, asked.proposal_id)
        assert (await finished(alice, asked))["finish_reason"] == "success"
        assert (await refunds(alice, "A1005")).count(float(amount)) == 1


@pytest.mark.timeout(240)
@pytest.mark.spec("A10", "G8", "W9")
@pytest.mark.parametrize("child", CHILDREN)
async def test_child_killed_the_moment_of_the_approval_still_gives_one_refund(house: PlacetProcess, child: str) -> None:
    need(house, child)
    amount = amount_for(child, 2)
    async with house.client("alice") as alice, house.client("dave") as dave:
        asked = await ask(alice, "A1006", amount)
        proposal = await dave.proposals.get(asked.proposal_id)
        assert proposal.status == "pending"
        victim = house.pids()[child]
        approving = asyncio.create_task(approve(dave, asked.proposal_id))
        await asyncio.sleep(0.004)
        psutil.Process(victim).send_signal(signal.SIGKILL)
        await asyncio.gather(approving, return_exceptions=True)
        await house.settled()
        # Whether the decision came through before the kill or not, deciding again leads to the same one effect.
        await approve(dave, asked.proposal_id)
        end = await finished(alice, asked)
        assert end["finish_reason"] == "success"
        assert (await refunds(alice, "A1006")).count(float(amount)) == 1
        completed = await dave.proposals.get(asked.proposal_id)
        assert (completed.status, completed.finish_reason) == ("completed", "success")


async def listed(requester: PlacetClient, run_id: str) -> list[str]:
    """The run's proposals in the list, which follows the events: after a kill it may be some seconds behind."""
    deadline = time.monotonic() + 45
    while True:
        found = [item.proposal_id async for item in requester.proposals.list() if item.run_id == run_id]
        if found or time.monotonic() > deadline:
            return found
        await asyncio.sleep(0.2)


@pytest.mark.timeout(240)
@pytest.mark.spec("U2", "A2")
@pytest.mark.parametrize("child", CHILDREN)
async def test_child_killed_while_the_run_works_leads_to_one_proposal_and_one_refund(
    house: PlacetProcess, child: str
) -> None:
    need(house, child)
    amount = amount_for(child, 3)
    async with house.client("alice") as alice, house.client("dave") as dave:
        victim = house.pids()[child]
        run_id = await alice.runs.start(f"Please refund order A1008, {amount}, it arrived broken.")
        await asyncio.sleep(0.015)
        psutil.Process(victim).send_signal(signal.SIGKILL)
        waiting = await alice.runs.wait(run_id, "run.waiting_for_human", timeout_s=90)
        assert waiting.type == "run.waiting_for_human"
        await house.settled()
        assert await listed(alice, run_id) == [waiting.data["proposal_id"]]
        asked = Asked(run_id, waiting.data["proposal_id"])
        await approve(dave, asked.proposal_id)
        assert (await finished(alice, asked))["finish_reason"] == "success"
        assert (await refunds(alice, "A1008")).count(float(amount)) == 1
