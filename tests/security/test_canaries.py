"""Rights revoked in the middle of a run: what was readable a moment ago is seen nowhere afterwards (U4, R6, T11).

Looked at: the answer and every event of the run, its audit records, what the executor hands to the agent after the
moment, everything logged, the conversation's summary, and every byte of the checkpoint tables.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from structlog.testing import capture_logs

from placet.contracts.errors import PlacetError
from placet.contracts.runs import Summary, SummaryOf
from placet.messaging.rpc import RpcClient
from services.agent.adapters.graph.nodes.compose import Composition
from services.agent.adapters.graph.nodes.execute import Execution
from services.agent.adapters.services import ExecutorDoor
from services.agent.domain.asking import PlannedCall
from tests.integration.agent_models import Stepwise, stub
from tests.security.run_house import TENANT, RunHouse

# The marker, and what the document says, in both its languages; not what the question says itself.
CANARIES = ("CANARY-7f3a-LAYOFF", "42 positions", "42 个岗位", "裁员计划 / Layoff plan", "kb-executive")
QUESTION = "What does the layoff plan say about positions in logistics and marketing?"
PLAN = "doc-layoff-plan"
BOARD = {"active": True, "roles": ["employee", "c_level"], "teams": ["executive"], "clearance": 3}
TICKET = {"title": "Follow up", "priority": "low", "team": "support", "description": "as discussed"}

Revoke = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class Watch:
    """Whatever could carry a sighting, from the moment of the revocation on."""

    house: RunHouse
    revoked: bool = False
    handed: list[str] = field(default_factory=list)
    checkpoints: list[bytes] = field(default_factory=list)
    logged: list[Any] = field(default_factory=list)

    async def look(self) -> None:
        self.checkpoints.append(await self.house.checkpoint_bytes())

    async def seen(self, run_id: str, caplog: pytest.LogCaptureFixture) -> list[str]:
        await self.look()
        events = [event.envelope.data for event in await self.house.events(run_id)]
        places: dict[str, Any] = {
            "events": events,
            "audit": await self.house.audited(run_id),
            "handed": self.handed,
            "logs": [self.logged, [record.getMessage() for record in caplog.records]],
            "summary": await self._summary(run_id, str(events[0]["conversation_id"])),
        }
        texts = {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in places.items()}
        found = [f"{canary} in {name}" for name, text in texts.items() for canary in CANARIES if canary in text]
        found += [f"{c} in checkpoints" for rows in self.checkpoints for c in CANARIES if c.encode() in rows]
        return found

    async def _summary(self, run_id: str, conversation: str) -> str:
        command = SummaryOf(grant=self.house.grant("frank", run_id), conversation_id=conversation)
        try:
            rpc = RpcClient(self.house.gateway)
            return (await rpc.call("memory", "get-summary", command, Summary, tenant=TENANT)).summary
        except PlacetError as error:
            return error.message


@pytest.fixture
async def watch(run_house: RunHouse, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Watch]:
    """Frank sits on the board, and everything that the executor hands over after his fall is kept."""
    await run_house.change("frank", **BOARD)
    watch = Watch(run_house)
    for name in ("execute", "resolve"):
        monkeypatch.setattr(ExecutorDoor, name, recorded(getattr(ExecutorDoor, name), watch))
    with capture_logs() as watch.logged:
        yield watch
    await run_house.change("frank", **BOARD)
    await run_house.open_document(PLAN)


def recorded(ask: Callable[..., Awaitable[Any]], watch: Watch) -> Callable[..., Awaitable[Any]]:
    async def answer(*args: Any, **kwargs: Any) -> Any:
        revoked = watch.revoked
        reply = await ask(*args, **kwargs)
        if revoked:
            watch.handed.append(str(reply))
        return reply

    return answer


def revoking(monkeypatch: pytest.MonkeyPatch, watch: Watch, owner: type, method: str, how: str) -> None:
    """Take the plan from Frank just before `method` begins, once."""
    begin = getattr(owner, method)

    async def after_the_fall(*args: Any) -> Any:
        if not watch.revoked:
            await fall(watch, how)
        return await begin(*args)

    monkeypatch.setattr(owner, method, after_the_fall)


async def fall(watch: Watch, how: str) -> None:
    await watch.look()
    if how in FALLS:
        fallen = {"active": True, "roles": ["employee"], "teams": [], "clearance": 1} | FALLS[how]
        await watch.house.change("frank", **fallen)
    else:
        await watch.house.close_document(PLAN, how)
    watch.revoked = True


# What befalls Frank, and what befalls the plan.
FALLS: dict[str, dict[str, Any]] = {"moved": {}, "dismissed": {"active": False}}
WAYS = (*FALLS, "narrowed", "withdrawn")


@pytest.mark.spec("K2", "U6")
async def test_canary_is_in_the_answer_of_whoever_may_read_it_and_even_then_in_no_record(
    watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with watch.house.agent():
        run_id = await watch.house.ask("frank", QUESTION)
        done = await watch.house.finished(run_id)
        seen = await watch.seen(run_id, caplog)
    assert "42 positions" in done["answer"]
    assert {sighting.rsplit(" in ", 1)[1] for sighting in seen} == {"events"}


@pytest.mark.spec("U4", "R4", "R6", "T11")
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize(
    ("owner", "method"), [(Execution, "_one"), (Composition, "draft")], ids=["before_retrieve", "before_compose"]
)
async def test_canary_of_a_document_revoked_while_a_question_is_answered_is_seen_nowhere(
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    owner: type,
    method: str,
    how: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    revoking(monkeypatch, watch, owner, method, how)
    async with watch.house.agent():
        run_id = await watch.house.ask("frank", QUESTION)
        done = await watch.house.finished(run_id)
        assert watch.revoked
        assert await watch.seen(run_id, caplog) == []
    assert done["citations"] == []


async def waiting_on_canary(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A run that has read the plan and proposes a ticket that rests on it; the run and its proposal."""
    search = PlannedCall("search_knowledge", {"query": "layoff plan positions logistics", "k": 4})
    stub(monkeypatch, Stepwise((search,), (PlannedCall("create_ticket", TICKET),)))
    run_id = await watch.house.ask("frank", "Please create a ticket: follow up")
    assert await watch.house.reach(run_id, "run-waiting-for-human", "run-completed") == "run-waiting-for-human"
    card = await watch.house.data(run_id, "run-waiting-for-human")
    proposal = await watch.house.rig.proposal("frank", str(card["proposal_id"]))
    assert any("layoff" in chunk for chunk in proposal.lineage)
    await watch.look()
    return run_id, proposal.proposal_id


@pytest.mark.spec("U4", "R4", "R6", "T11")
@pytest.mark.parametrize("how", WAYS)
async def test_proposal_that_rests_on_a_document_revoked_while_it_waits_is_withdrawn_and_the_canary_seen_nowhere(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with watch.house.agent():
        run_id, _ = await waiting_on_canary(watch, monkeypatch)
        await fall(watch, how)
        done = await watch.house.finished(run_id)  # nobody decides: the fall itself ends it
        assert await watch.seen(run_id, caplog) == []
    assert done["finish_reason"] in ("cancelled", "refused")
    effects = [event for event in await watch.house.effects() if event.envelope.data.get("run_id") == run_id]
    assert effects == []


@pytest.mark.spec("U4", "R6", "T11")
@pytest.mark.parametrize("how", WAYS)
async def test_canary_of_a_document_revoked_between_resume_and_answer_is_seen_nowhere(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level(logging.DEBUG)
    async with watch.house.agent():
        run_id, proposal_id = await waiting_on_canary(watch, monkeypatch)
        revoking(monkeypatch, watch, Composition, "draft", how)
        await watch.house.rig.approve("frank", proposal_id)
        done = await watch.house.finished(run_id)
        assert watch.revoked
        assert await watch.seen(run_id, caplog) == []
    assert done["citations"] == []
