"""SIGKILL of the agent at every node boundary and in the middle of every node: other workers finish each run, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration.agent_rig import AgentRig
from tests.integration.nursery import Nursery, environment, moments

pytestmark = pytest.mark.chaos

QUESTION = "What is the nightly lodging limit in Shanghai?"
REFUND = "Please refund order A1001, 299, it arrived broken."

ANSWERED = moments("scope", "route", "retrieve", "execute", "compose", "finish")
ASKED = moments("plan", "execute")
RESUMED = moments("await_decision", "settle", "plan", "compose", "finish")


@pytest.fixture
async def nursery(agent_rig: AgentRig, root: Path) -> AsyncIterator[Nursery]:
    """The house without its agent, which comes back afterwards."""
    nursery = Nursery(environment(agent_rig.settings()), agent_rig.directory / "dying.log", root)
    yield nursery
    nursery.close()
    if agent_rig.agent is None:
        await agent_rig.start_agent()


async def gapless_and_once(rig: AgentRig, run_id: str) -> None:
    events = await rig.events(run_id)
    assert [event.envelope.data["seq"] for event in events] == list(range(1, len(events) + 1))
    names = [event.name for event in events]
    for name in ("run-started", "run-routed", "tool-proposed", "tool-completed", "run-completed"):
        assert names.count(name) == 1, names
    assert max(names.count(name) for name in ("run-waiting-for-human", "run-resumed")) <= 1, names
    assert len({call.call_id for call in rig.executor.of(run_id)}) == 1
    streamed = "".join(data["text"] for data in await rig.data(run_id, "message-delta"))
    assert streamed == (await rig.data(run_id, "run-completed"))[0]["answer"]
    epochs = [event.envelope.data["epoch"] for event in events]
    assert epochs == sorted(epochs)


@pytest.mark.spec("U2", "U5", "W9")
@pytest.mark.timeout(300)
async def test_answers_whose_workers_are_killed_at_every_node_are_given_once_and_without_a_gap(
    agent_rig: AgentRig, nursery: Nursery
) -> None:
    await agent_rig.stop_agent()
    runs = []
    for node, when in ANSWERED:
        runs.append(await agent_rig.ask(QUESTION))
        await nursery.killed(node, when)
    await agent_rig.start_agent()
    for run_id in runs:
        done = await agent_rig.finished(run_id, timeout_s=90)
        assert done["answer"] == "The nightly lodging limit in Shanghai is CNY 650. [1]"
        await gapless_and_once(agent_rig, run_id)


@pytest.mark.spec("U2", "U5", "W9", "A10", "B10")
@pytest.mark.timeout(300)
async def test_approved_work_whose_workers_are_killed_at_every_node_is_asked_and_told_once(
    agent_rig: AgentRig, nursery: Nursery
) -> None:
    await agent_rig.stop_agent()
    runs = []
    for node, when in ASKED:
        runs.append(await agent_rig.ask(REFUND))
        await nursery.killed(node, when)
    await agent_rig.start_agent()
    while len(runs) < len(RESUMED):
        runs.append(await agent_rig.ask(REFUND))
    for run_id in runs:
        await agent_rig.reach(run_id, "run-waiting-for-human", timeout_s=90)
        await agent_rig.released(run_id)
    await agent_rig.stop_agent()
    for run_id, (node, when) in zip(runs, RESUMED, strict=False):
        await agent_rig.complete(run_id)
        await nursery.killed(node, when)
    await agent_rig.start_agent()
    for run_id in runs:
        done = await agent_rig.finished(run_id, timeout_s=90)
        assert done["answer"] == "Done: 299 CNY was refunded for order A1001, refund R-1, approved by dave."
        await gapless_and_once(agent_rig, run_id)
