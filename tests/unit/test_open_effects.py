"""Effects whose outcome nobody knew are looked up again, and end without a hand where the tool can tell (G8, G12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, cast

import pytest
from effect_world import KEY, TENANT, MemoryLedger, NoLimit, Provider, effect, unavailable

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.audit import AuditRecord
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import SettleEffect
from placet.contracts.policy import Spending
from placet.contracts.tools import Effect as EffectKind
from placet.contracts.tools import RetryClass, Sensitivity
from placet.identity.directory import Directory
from placet.identity.grants import GrantVerifier
from placet.messaging.reading import Stored
from placet.messaging.work_queue import Job, RetryLater
from placet.observability.context import RequestContext, bound
from placet.policy.port import PolicyDecisionPoint
from placet.testkit.builders import person
from placet.toolkit import ToolSpec
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.ledger import State
from services.tool_executor.handlers.effects import EffectRunner
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.handlers.open_effects import OpenEffects
from services.tool_executor.handlers.settle import settled


class Sink:
    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    async def write(self, tenant: str, name: str, entity: str, record: AuditRecord, *, once: str | None = None) -> None:
        self.records.append(record)


class People:
    async def find(self, tenant: str, person_id: str) -> Any:
        return person(person_id)


class Pack:
    name = "odd"

    def __init__(self, spec: ToolSpec) -> None:
        self._spec = spec

    def tools(self) -> list[ToolSpec]:
        return [self._spec]


class World:
    def __init__(self, spec: ToolSpec, *, proposal_id: str | None = "prop-1") -> None:
        self.ledger, self.sink = MemoryLedger(), Sink()
        self.effect = effect(spec, proposal_id=proposal_id)
        self.runner = EffectRunner(self.ledger, NoLimit(), "worker")
        callers = Callers(cast(GrantVerifier, None), cast(Directory, People()), cast(PolicyDecisionPoint, None))
        self.open = OpenEffects(
            callers,
            ToolRegistry([cast(Any, Pack(spec))]),
            self.runner,
            self.ledger,
            AuditTrail(self.sink, "tool-executor"),
            longest_wait_s=60,
            abandoned_after_s=30,
        )

    async def run(self, *, last: bool = True) -> State:
        return (await self.runner.run(self.effect, await self.ledger.load(TENANT, KEY), last_attempt=last)).state

    async def job(self, name: str, attempt: int) -> float | None:
        """Deliver the ledger's event of that name; returns the seconds after which it wants to come again."""
        seq, _, event = next(item for item in self.ledger.events[KEY] if item[1] == name)
        envelope = cast(Any, type("Envelope", (), {"data": event.model_dump(mode="json")}))
        stored = Stored(seq, f"placet.acme.tool-executor.evt.{name}.v1.{KEY}", name, KEY, TENANT, envelope, True)
        handler = {"claimed": self.open.on_claimed, "unknown": self.open.on_unknown}[name]
        with bound(RequestContext("req-1", TENANT, "alice")):
            try:
                await handler(Job(stored, attempt))
            except RetryLater as later:
                return later.delay_s
        return None

    @property
    def state(self) -> State:
        return self.ledger.entry(KEY).state


def down(step: str) -> None:
    raise unavailable()


def lost(step: str) -> None:
    """The money is taken, and from then on nobody answers."""
    if step != "call":
        raise unavailable()


@pytest.mark.spec("G8", "G12")
async def test_unknown_effect_whose_provider_comes_back_settles_itself_and_is_recorded() -> None:
    provider = Provider(behave=lost)
    world = World(provider.spec())
    assert await world.run() is State.UNKNOWN
    assert [await world.job("unknown", attempt) for attempt in (1, 4, 40)] == [2.0, 16.0, 60]
    assert world.state is State.UNKNOWN
    provider.behave = lambda step: None
    assert await world.job("unknown", 41) is None
    assert world.ledger.names() == ["claimed", "unknown", "executed", "verified"]
    assert (provider.calls, provider.effects) == (1, 1)
    [record] = world.sink.records
    assert (record.outcome, record.idempotency_key, record.proposal_id) == ("verified", KEY, "prop-1")


@pytest.mark.spec("G8", "G12")
async def test_unknown_effect_that_is_not_found_ends_failed_only_after_a_second_look() -> None:
    provider = Provider(behave=down)
    world = World(provider.spec(timeout_s=0.05))
    assert await world.run() is State.UNKNOWN
    provider.behave = lambda step: None
    delay = await world.job("unknown", 1)
    assert delay is not None
    assert delay >= 0.05
    assert world.state is State.UNKNOWN
    world.open._missed[KEY] -= 1  # the timeout has passed
    assert await world.job("unknown", 2) is None
    assert world.state is State.FAILED
    assert provider.effects == 0
    with pytest.raises(PlacetError) as caught:
        world.ledger.entry(KEY).answer()
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


@pytest.mark.spec("G12")
async def test_unknown_effect_without_a_lookup_waits_for_a_person() -> None:
    provider = Provider(behave=lambda step: down(step) if step == "took" else None)
    world = World(provider.spec(RetryClass.NEVER, lookup=False))
    assert await world.run() is State.UNKNOWN
    assert [await world.job("unknown", attempt) for attempt in (1, 50)] == [60, 60]
    assert (world.state, world.sink.records) == (State.UNKNOWN, [])


@pytest.mark.spec("G8", "G12")
@pytest.mark.parametrize("outcome", ["executed", "not_executed"])
@pytest.mark.parametrize("lookup", [True, False], ids=["told", "untold"])
async def test_effect_settled_by_a_person_meanwhile_is_left_alone_and_its_settling_is_recorded(
    outcome: str, lookup: bool
) -> None:
    """Also when the replica that wrote the settlement down died before it recorded it, and before it told the tool."""
    provider = Provider(behave=lost)
    world = World(provider.spec(RetryClass.KEYED if lookup else RetryClass.NEVER, lookup=lookup))
    await world.run()
    entry = world.ledger.entry(KEY)
    assert isinstance(entry.effect, ev.Unknown)
    command = SettleEffect(grant="-", key=KEY, outcome=outcome, note="seen at the bank")  # type: ignore[arg-type]
    name, event = settled(entry.effect, command, "dave")
    await world.ledger.append(TENANT, KEY, name, event, entry)
    provider.behave = lambda step: None
    before = world.ledger.names()
    assert await world.job("unknown", 2) is None
    assert provider.log.count("confirm") == (outcome == "executed")
    assert await world.run() is (State.EXECUTED if outcome == "executed" else State.FAILED)
    assert world.ledger.names() == before
    [record] = world.sink.records
    assert (record.action, record.outcome, record.actor, record.note, record.proposal_id) == (
        "effects.settle",
        outcome,
        "dave",
        "seen at the bank",
        "prop-1",
    )


@pytest.mark.spec("G8", "W11")
async def test_call_whose_worker_died_after_the_claim_is_looked_into_and_ends() -> None:
    provider = Provider(behave=lambda step: down(step) if step != "call" else None)
    world = World(provider.spec(), proposal_id=None)
    with pytest.raises(PlacetError):
        await world.run(last=False)
    assert world.state is State.CLAIMED
    provider.behave = lambda step: None
    assert await world.job("claimed", 1) == 30
    assert await world.job("claimed", 2) is None
    assert world.ledger.names() == ["claimed", "executed", "verified"]
    assert [record.outcome for record in world.sink.records] == ["verified"]


@pytest.mark.spec("G12")
async def test_call_that_cannot_be_looked_up_for_long_becomes_unknown_for_people_to_see() -> None:
    provider = Provider(behave=down)
    world = World(provider.spec(), proposal_id=None)
    with pytest.raises(PlacetError):
        await world.run(last=False)
    assert await world.job("claimed", 5) == 32.0
    assert await world.job("claimed", 9) is None
    assert world.state is State.UNKNOWN


@pytest.mark.spec("A10")
async def test_claim_of_an_approved_call_is_left_to_its_own_job() -> None:
    world = World(Provider(behave=down).spec())
    with pytest.raises(PlacetError):
        await world.run(last=False)
    assert await world.job("claimed", 1) is None
    assert world.state is State.CLAIMED


@pytest.mark.spec("G11", "W11")
async def test_effect_beyond_what_the_tenant_may_spend_today_is_never_claimed() -> None:
    class SpentDay(NoLimit):
        async def reserve(self, tenant: str, key: str, amount: float, limit: float) -> bool:
            return amount <= limit

    provider = Provider()
    world = World(provider.spec())
    runner = EffectRunner(world.ledger, SpentDay(), "worker")
    over = replace(world.effect, spending=Spending(amount=11, per_day=10))
    entry = await runner.run(over, await world.ledger.load(TENANT, KEY))
    assert (entry.state, entry.code, world.ledger.names()) == (State.FAILED, "limit_reached", ["failed"])
    assert provider.calls == 0
    with pytest.raises(PlacetError) as caught:
        entry.answer()
    assert caught.value.code is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("G8", "A10")
@pytest.mark.parametrize("last", [False, True])
async def test_gated_read_whose_worker_died_is_simply_made_again(last: bool) -> None:
    """What changes nothing needs no lookup, and cannot end unknown."""
    provider = Provider(behave=down)
    spec = replace(
        provider.spec(lookup=False, retry=RetryClass.NEVER),
        sensitivity=Sensitivity.SENSITIVE_READ,
        effect=EffectKind.NONE,
        retry=RetryClass.SAFE,
        needs_idempotency_key=False,
    )
    world = World(spec)
    if last:
        assert await world.run(last=True) is State.FAILED
        return
    with pytest.raises(PlacetError):
        await world.run(last=False)
    provider.behave = lambda step: None
    assert await world.run(last=False) is State.VERIFIED
    assert world.ledger.names() == ["claimed", "executed", "verified"]


@pytest.mark.spec("G11")
async def test_reservation_of_an_effect_that_had_ended_already_is_closed_with_its_end() -> None:
    """A job seen a second time reserves before it finds out; nothing of that may be left over."""

    class Watched(NoLimit):
        closed: ClassVar[list[str]] = []

        async def release(self, tenant: str, key: str) -> None:
            self.closed.append(f"released {key}")

        def keep(self, tenant: str, key: str) -> None:
            self.closed.append(f"kept {key}")

    world = World(Provider().spec())
    runner = EffectRunner(world.ledger, Watched(), "worker")
    await runner.close_spending(TENANT, KEY, world.ledger.entry(KEY))
    assert Watched.closed == []
    assert await world.run() is State.VERIFIED
    await runner.close_spending(TENANT, KEY, world.ledger.entry(KEY))
    assert Watched.closed == [f"kept {KEY}"]
