"""What must hold of every journey once everything has healed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from sqlalchemy import text

from placet.contracts import subjects
from placet.contracts.envelope import Event
from placet.contracts.events import Approved
from placet.contracts.registry import approval_events
from placet.identity import keys
from placet.identity.signing import EventVerifier
from placet.messaging.reading import EventReader, Stored
from tests.chaos.house import TENANT, House
from tests.chaos.journey import Journey

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Records:
    """Everything that was stored, by entity. Read past the proxies."""

    runs: dict[str, list[Stored]]
    proposals: dict[str, list[Stored]]
    effects: dict[str, list[Stored]]
    audited: dict[str, list[Stored]]
    refunds: dict[str, list[tuple[Decimal, str]]]

    @classmethod
    async def of(cls, house: House) -> Records:
        approval, gateway = await house.stores.bus("approval"), await house.stores.bus("gateway")
        public = house.stores.state.keys
        signed = {owner: EventVerifier([keys.read(public / f"{owner}.public.jwk")]) for owner in ("approval", "effect")}
        try:
            return cls(
                runs=await _all(EventReader(gateway, "RUNS"), "agent"),
                proposals=await _all(EventReader(approval, "APPROVALS", signed["approval"]), "approval"),
                effects=await _all(EventReader(approval, "EFFECTS", signed["effect"]), "tool-executor"),
                audited=await _all(EventReader(approval, "AUDIT"), "audit"),
                refunds=await _refunds(house),
            )
        finally:
            await approval.close()
            await gateway.close()

    def proposals_of(self, run_id: str) -> list[str]:
        return [
            entity
            for entity, events in self.proposals.items()
            if events[0].envelope.data.get("origin", {}).get("run_id") == run_id
        ]


async def _all(reader: EventReader, owner: str) -> dict[str, list[Stored]]:
    found: dict[str, list[Stored]] = defaultdict(list)
    after = 0
    while page := await reader.page(f"placet.{TENANT}.{owner}.evt.>", after=after, limit=_PAGE):
        for event in page:
            found[event.entity].append(event)
        after = page[-1].seq
    return found


async def _refunds(house: House) -> dict[str, list[tuple[Decimal, str]]]:
    found: dict[str, list[tuple[Decimal, str]]] = defaultdict(list)
    database = house.stores.database()
    try:
        async with database.engine.connect() as connection:
            rows = await connection.execute(
                text("SELECT order_id, amount, state FROM business.refunds ORDER BY created_at")
            )
            for order_id, amount, state in rows:
                found[order_id].append((amount, state))
    finally:
        await database.close()
    return found


def gave_up(journey: Journey, records: Records) -> bool:
    """Whether the run told its owner to try again later, and has indeed left nothing behind."""
    events = records.runs.get(journey.run_id, [])
    ended = events[-1].envelope.data["data"] if events else {}
    ends = [records.proposals[proposal][-1].envelope.data for proposal in records.proposals_of(journey.run_id)]
    withdrawn = all(end.get("finish_reason") == "cancelled" for end in ends)
    untouched = withdrawn and journey.order_id not in records.refunds
    return untouched and ended.get("finish_reason") == "failed" and "try again later" in str(ended.get("answer"))


def violations(journey: Journey, records: Records, house: House) -> list[str]:
    """What does not hold of this journey, in words; empty when all is well."""
    wrong = [f"run: {what}" for what in _of_run(journey, records.runs.get(journey.run_id, []))]
    proposals = records.proposals_of(journey.run_id)
    if proposals != [journey.proposal_id]:
        return [*wrong, f"proposals of this run: {proposals}, shown: {journey.proposal_id}"]
    history = records.proposals[journey.proposal_id]
    wrong += [f"proposal: {what}" for what in _of_proposal(journey, history)]
    key = key_of(history)
    if key is None and journey.ending.effect:
        return [*wrong, "never approved"]
    key = key or ""
    wrong += [f"effect: {what}" for what in _of_effect(journey, records.effects.get(key, []))]
    if (asked := house.provider.posts["payment", key]) != journey.ending.payments:
        wrong.append(f"the provider was asked {asked} times")
    books = [(Decimal(journey.amount), state) for state in journey.ending.books]
    if (found := records.refunds.get(journey.order_id, [])) != books:
        wrong.append(f"the books say {found}")
    if journey.undone_by:
        wrong += [f"undo: {what}" for what in _of_undo(journey, records, house)]
    return wrong + _of_audit(journey, records)


def _of_undo(journey: Journey, records: Records, house: House) -> Iterable[str]:
    offers = [
        entity
        for entity, events in records.proposals.items()
        if events[0].envelope.data["origin"].get("rollback_of") == journey.proposal_id
    ]
    if offers != [journey.undone_by]:
        yield f"offered as {offers}"
        return
    history = records.proposals[journey.undone_by]
    names = [event.name for event in history if event.name != "viewed"]
    if names != ["proposed", "waiting-for-human", "approved", "approved", "completed"]:
        yield f"its history is {names}"
    key = key_of(history)
    effect = [event.name for event in records.effects.get(key or "", [])]
    if effect != ["claimed", "executed", "verified"]:
        yield f"its effect is {effect}"
    if (asked := house.provider.posts["cancellation", str(key)]) != 1:
        yield f"the provider was asked {asked} times"
    if not all(event.verified for event in [*history, *records.effects.get(key or "", [])]):
        yield "a signature does not hold"


def _of_run(journey: Journey, events: list[Stored]) -> Iterable[str]:
    names = [event.name for event in events]
    if [event.envelope.data["seq"] for event in events] != list(range(1, len(events) + 1)):
        yield f"its numbers have a gap: {names}"
    once = ("run-started", "run-routed", "tool-proposed", "run-waiting-for-human", "run-resumed", "run-completed")
    for name in once:
        if names.count(name) != 1:
            yield f"{name} is there {names.count(name)} times"
    if names[-1:] != ["run-completed"]:
        yield f"it does not end: {names}"
    elif (reason := events[-1].envelope.data["data"]["finish_reason"]) != journey.ending.run:
        yield f"it ends as {reason}: {events[-1].envelope.data['data']['answer']}"
    if journey.end is None or [event.seq for event in journey.events] != list(range(1, len(events) + 1)):
        yield "its owner was shown something else than what is stored"


def _of_proposal(journey: Journey, events: list[Stored]) -> Iterable[str]:
    names = [
        event.name for event in events if event.name != "viewed" and event.envelope.data.get("outcome") != "unchanged"
    ]
    if tuple(names) != journey.ending.proposal:
        yield f"its history is {names}"
    if not all(event.verified for event in events):
        yield "a signature does not hold"
    if journey.acknowledged and "approved" not in names:
        yield "a decision that was acknowledged is not there"


def key_of(history: list[Stored]) -> str | None:
    """The key under which an approved proposal takes effect."""
    models: dict[str, type[Event]] = approval_events()
    for event in history:
        data = models[event.name].model_validate(event.envelope.data)
        if isinstance(data, Approved) and data.final:
            return data.idempotency_key
    return None


def _of_effect(journey: Journey, events: list[Stored]) -> Iterable[str]:
    names = [event.name for event in events]
    if tuple(names) != journey.ending.effect:
        yield f"its history is {names}"
    if not all(event.verified for event in events):
        yield "a signature does not hold"


def _of_audit(journey: Journey, records: Records) -> list[str]:
    told = {
        event.name
        for events in records.audited.values()
        for event in events
        if journey.run_id == event.envelope.data.get("run_id")
    }
    expected = {"tool-decided", "proposal-completed", "run-finished"} | journey.ending.audited
    return [f"no audit record of {name}" for name in sorted(expected - told)]


def subject_of(run_id: str) -> str:
    return subjects.entity(TENANT, "agent", run_id)
