"""Step 4: a refund is proposed by the agent, decided by a person, executed exactly once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from placet.cli.demo.report import Report
from placet.cli.demo.world import World, gapless, mentions, refusal
from placet.client import PlacetClient
from placet.client.models import Chat, Decided, RunEvent
from placet.client.proposals import acknowledge
from placet.contracts.proposals import ProposalView
from placet.observability.context import new_id

ORDER = "A1001"
AMOUNT = "299"
QUESTION = f"Please refund order {ORDER}, {AMOUNT}, it arrived broken."
RUN_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Refund:
    """What the audit step looks for."""

    run_id: str
    proposal_id: str
    request_id: str


class NotShowableError(RuntimeError):
    """The step cannot be shown on this world."""


async def show(world: World, report: Report) -> Refund:
    """Raises `NotShowableError` when the order has been refunded before, or when nothing was proposed."""
    report.step(f"Step 4: Alice asks for a refund of {ORDER}")
    if await refunds(world["alice"]):
        raise NotShowableError(f"{ORDER} has been refunded before: this step needs a fresh demo world")
    request_id = new_id("demo")
    chat = await world["alice"].with_request_id(request_id).runs.chat(QUESTION)
    report.say(f"{QUESTION} → {chat.status}: {chat.proposal.title if chat.proposal else chat.answer}")
    if chat.proposal is None:
        raise NotShowableError(f"the agent proposed nothing: {chat.answer!r} ({chat.finish_reason})")
    refund = Refund(chat.run_id, chat.proposal.proposal_id, request_id)
    await _waits(world, chat, report)
    await _nobody_else_decides(world, chat, refund, report)
    await _dave_approves(world, refund, report)
    await _completed(world, refund, report)
    return refund


async def refunds(client: PlacetClient) -> list[dict[str, object]]:
    """The refunds of the order, as the business data has them now."""
    call = await client.tools.call("query_business_data", {"entity": "refunds", "order_id": ORDER})
    return list((call.result or {}).get("items", []))


async def _waits(world: World, chat: Chat, report: Report) -> None:
    events: list[RunEvent] = []
    async with asyncio.timeout(RUN_TIMEOUT_S):
        async for event in world["alice"].runs.follow(chat.run_id):
            events.append(event)
            if event.type in ("run.waiting_for_human", "run.completed"):
                break
    report.equal("the event stream shows run.waiting_for_human", events[-1].type, "run.waiting_for_human")
    report.holds("its events count from 1 without gaps", gapless(events), got=[event.seq for event in events])
    report.equal("the run waits for a person", (await world["alice"].runs.get(chat.run_id)).status, "waiting_for_human")


async def _nobody_else_decides(world: World, chat: Chat, refund: Refund, report: Report) -> None:
    alice = world["alice"]
    said = await alice.runs.chat("I confirm", chat.conversation_id)
    await alice.runs.wait(said.run_id, "run.waiting_for_human", timeout_s=RUN_TIMEOUT_S)
    report.equal(
        "Alice writing 'I confirm' changes nothing: the proposal is pending",
        (await alice.proposals.get(refund.proposal_id)).status,
        "pending",
    )
    report.equal("and nothing is refunded", await refunds(alice), [])
    proposal = await alice.proposals.get(refund.proposal_id)
    own = await refusal(_approve(alice, proposal))
    report.holds(
        "Alice may see her own proposal but not decide it: 403",
        own is not None and (own.status, own.code) == (403, "permission_denied"),
        expected="403 permission_denied",
        got=own,
    )


async def _dave_approves(world: World, refund: Refund, report: Report) -> None:
    dave = world["dave"]
    proposal = await dave.proposals.get(refund.proposal_id)
    report.say(f"{proposal.summary} — risk {proposal.risk}, digest {proposal.digest[:23]}…")
    unread = await refusal(dave.proposals.decide(refund.proposal_id, "approve", digest=proposal.digest))
    report.holds(
        "approving without answering the challenge: 422, and nothing changes",
        unread is not None
        and (unread.status, unread.code) == (422, "challenge_failed")
        and (await dave.proposals.get(refund.proposal_id)).status == "pending",
        expected="422 challenge_failed, and pending",
        got=unread,
    )
    decided = await _approve(dave, proposal)
    report.holds(
        "Dave answers the challenge and approves what the digest stands for",
        decided.status in ("approved", "executing", "completed"),
        expected="approved",
        got=decided,
    )


async def _completed(world: World, refund: Refund, report: Report) -> None:
    alice, dave, erin = world["alice"], world["dave"], world["erin"]
    end = await alice.runs.wait(refund.run_id, timeout_s=RUN_TIMEOUT_S)
    answer = str(end.data.get("answer"))
    report.say(f"the run ends: {answer}")
    report.equal("the run ends with success", end.data.get("finish_reason"), "success")
    done = ORDER in answer and mentions(answer, AMOUNT)
    report.holds("and its answer says what was done", done, expected=f"{ORDER} and {AMOUNT}", got=answer)
    made = await refunds(alice)
    amounts = [float(str(item.get("amount"))) for item in made]
    report.equal(f"exactly one refund of {AMOUNT} is in the business data", amounts, [float(AMOUNT)])
    proposal = await dave.proposals.get(refund.proposal_id)
    report.equal(
        "the proposal is completed with success", (proposal.status, proposal.finish_reason), ("completed", "success")
    )
    events = [event async for event in dave.proposals.events(refund.proposal_id)]
    names = [event.name for event in events]
    report.holds(
        "its stream holds proposed, waiting-for-human, approved and completed, each validly signed",
        _in_order(names, ["proposed", "waiting-for-human", "approved", "completed"])
        and all(event.verified for event in events),
        expected="proposed … waiting-for-human … approved … completed, all verified",
        got=[(event.name, event.verified) for event in events],
    )
    second = await refusal(_approve(erin, proposal))
    report.holds(
        "a second decision comes too late: 409",
        second is not None and (second.status, second.code) == (409, "already_decided"),
        expected="409 already_decided",
        got=second,
    )


async def _approve(client: PlacetClient, proposal: ProposalView) -> Decided:
    return await client.proposals.decide(
        proposal.proposal_id, "approve", digest=proposal.digest, acknowledgements=acknowledge(proposal)
    )


def _in_order(names: list[str], wanted: list[str]) -> bool:
    """Whether `wanted` is a subsequence of `names`."""
    rest = iter(names)
    return all(name in rest for name in wanted)
