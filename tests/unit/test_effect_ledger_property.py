"""One effect under one key, driven through every crash a machine can think of (G8, W9, G12)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest
from effect_world import KEY, TENANT, Killed, MemoryLedger, NoLimit, Provider, effect, unavailable
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from placet.contracts import events as ev
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import SettleEffect
from placet.contracts.tools import RetryClass
from services.tool_executor.domain.ledger import Entry, State
from services.tool_executor.handlers.effects import EffectRunner
from services.tool_executor.handlers.settle import settled
from services.tool_executor.ports import LedgerRaceError

_LOOP = asyncio.new_event_loop()  # one for all steps: making one takes longer than a step
_STEPS = ("call", "took", "lookup", "verify")
_APPENDS = ("claimed", "executed", "failed", "unknown", "verified", "verification-failed")
_FAULTS = st.dictionaries(
    st.sampled_from(_STEPS), st.sampled_from(["killed", "down", "lost", "bug", "refused"]), max_size=2
)
_DEATHS = st.dictionaries(st.sampled_from(_APPENDS), st.sampled_from(["before", "after"]), max_size=1)


class OneEffect(RuleBasedStateMachine):
    """The job is delivered again and again, to one worker or to two at once, while everything around it breaks."""

    @initialize(retry=st.sampled_from(RetryClass), lookup=st.booleans(), good=st.booleans())
    def begin(self, retry: RetryClass, lookup: bool, good: bool) -> None:
        retry = RetryClass.NEVER if retry is RetryClass.SAFE or not lookup else retry
        self.ledger, self.provider = MemoryLedger(), Provider(reads_back=good)
        self.spec = self.provider.spec(retry, lookup=lookup)
        self.runner = EffectRunner(self.ledger, NoLimit(), "worker")
        self.settled_as: str | None = None
        self.calls_when_unknown: int | None = None

    @rule(faults=_FAULTS, deaths=_DEATHS, last=st.booleans())
    def deliver(self, faults: dict[str, str], deaths: dict[str, str], last: bool) -> None:
        self._play(self._work(last), faults, deaths)

    @rule(faults=_FAULTS, last=st.booleans())
    def deliver_to_two_workers_that_saw_no_claim(self, faults: dict[str, str], last: bool) -> None:
        """Both have read the same state; after a claim the queue keeps its job from a second worker."""
        if self._entry().state is State.NOT_EXECUTED:
            self._play(self._both(last), faults, {})

    @rule(faults=_FAULTS, deaths=_DEATHS, certain=st.booleans())
    def look_up_again(self, faults: dict[str, str], deaths: dict[str, str], certain: bool) -> None:
        if self._entry().state in (State.CLAIMED, State.UNKNOWN):
            self._play(self._resolve(certain), faults, deaths)

    @precondition(lambda self: self._entry().state is State.UNKNOWN)
    @rule()
    def settle(self) -> None:
        outcome = "executed" if self.provider.effects else "not_executed"
        entry = self._entry()
        command = SettleEffect(grant="-", key=KEY, outcome=outcome, note="seen at the bank")  # type: ignore[arg-type]
        assert isinstance(entry.effect, ev.Unknown)
        name, event = settled(entry.effect, command, "dave")
        _LOOP.run_until_complete(self.ledger.append(TENANT, KEY, name, event, entry))
        self.settled_as = outcome

    @invariant()
    def never_two_effects_and_never_a_blind_repeat(self) -> None:
        assert self.provider.effects <= 1
        assert not self.provider.called_blindly

    @invariant()
    def the_ledger_tells_the_truth(self) -> None:
        entry = self._entry()
        if entry.state in (State.EXECUTED, State.VERIFIED, State.VERIFICATION_FAILED):
            assert self.provider.effects == 1
        if entry.state in (State.FAILED, State.NOT_EXECUTED):
            assert self.provider.effects == 0
        if entry.state in (State.VERIFIED, State.VERIFICATION_FAILED):
            assert self.provider.reads_back == (entry.state is State.VERIFIED)

    @invariant()
    def unknown_blocks_until_it_is_settled(self) -> None:
        names = self.ledger.names()
        if "unknown" not in names:
            return
        self.calls_when_unknown = (
            self.calls_when_unknown if self.calls_when_unknown is not None else self.provider.calls
        )
        assert self.provider.calls == self.calls_when_unknown

    @invariant()
    def one_claim_and_one_end(self) -> None:
        names = self.ledger.names()
        ends = [name for name in names if name in ("failed", "verified", "verification-failed")]
        assert names.count("claimed") == (1 if names else 0)
        assert names.count("executed") <= 1
        assert names.count("unknown") <= 1
        assert len(ends) <= 1
        assert not ends or names[-1] == ends[0]

    def teardown(self) -> None:
        """When everything works again, some delivery brings it to an end, or only a person can."""
        if not hasattr(self, "ledger"):
            return
        self._play(self._work(last=False), {}, {})
        if self._entry().state is State.UNKNOWN and self.spec.hooks.lookup is not None:
            self._play(self._resolve(certain=True), {}, {})
        entry = self._entry()
        assert entry.ended or (entry.state is State.UNKNOWN and self.spec.hooks.lookup is None)
        self.the_ledger_tells_the_truth()

    def _entry(self) -> Entry:
        return self.ledger.entry(KEY)

    async def _work(self, last: bool) -> None:
        await self.runner.run(effect(self.spec), await self.ledger.load(TENANT, KEY), last_attempt=last)

    async def _both(self, last: bool) -> None:
        entry = await self.ledger.load(TENANT, KEY)
        work = (self.runner.run(effect(self.spec), entry, last_attempt=last) for _ in range(2))
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        assert sum(isinstance(outcome, LedgerRaceError) for outcome in outcomes) == 1

    async def _resolve(self, certain: bool) -> None:
        entry = await self.ledger.load(TENANT, KEY)
        await self.runner.resolve(effect(self.spec), entry, settles_absence=certain)

    def _play(self, work: Coroutine[Any, Any, None], faults: dict[str, str], deaths: dict[str, str]) -> None:
        pending = {step: deque([kind]) for step, kind in faults.items()}

        def behave(step: str) -> None:
            if pending.get(step):
                self._break(step, pending[step].popleft())

        self.provider.behave, self.ledger.die = behave, deaths
        with suppress(PlacetError, LedgerRaceError, Killed, RuntimeError):
            _LOOP.run_until_complete(work)
        self.provider.behave, self.ledger.die = lambda step: None, {}

    def _break(self, step: str, kind: str) -> None:
        if kind == "killed":
            raise Killed(step)
        if kind == "down" or (kind == "lost" and step == "verify"):
            raise unavailable()
        if kind == "bug":
            raise RuntimeError(step)
        if kind == "lost":
            raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "as asked")
        if step == "call":  # only before it takes effect may a tool say that it did not
            raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "as asked")


TestOneEffect = pytest.mark.spec("G8", "G12", "W9")(OneEffect.TestCase)
TestOneEffect.settings = settings(max_examples=70, stateful_step_count=8, deadline=None)
