"""Effects that were left open: looked up again until it is known what became of them (G8, G12).

The jobs are the ledger's own events, `claimed` and `unknown`, on durable consumers: a job that is not acknowledged is
the timer, and it lives in the server, so that whatever dies here, the next replica asks again. Nothing is executed:
nobody waits for the effect any more, and nobody agreed to it happening now.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from placet.audit.trail import AuditTrail
from placet.contracts import events as ev
from placet.contracts.errors import PlacetError
from placet.contracts.registry import effect_events
from placet.messaging.work_queue import Job, RetryLater
from placet.observability import logs
from placet.toolkit import ToolSpec
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.ledger import Entry, State
from services.tool_executor.handlers.claimed import claimed_effect
from services.tool_executor.handlers.effects import EffectRunner
from services.tool_executor.handlers.identity import Callers
from services.tool_executor.handlers.settle import confirm, record_settlement
from services.tool_executor.ports import EffectLedger, LedgerRaceError

log = logs.get(__name__)

_MODELS = effect_events()
_RACE_DELAY_S = 1.0
_MARGIN_S = 0.2
_MOST_LOOKUPS_OF_A_CLAIM = 8


@dataclass(frozen=True, slots=True)
class OpenEffects:
    """`longest_wait_s`: how far apart the lookups of one key get while the tool gives no answer.

    `abandoned_after_s`: how long after its claim a call made at once is nobody's business but its caller's.
    """

    callers: Callers
    registry: ToolRegistry
    effects: EffectRunner
    ledger: EffectLedger
    audit: AuditTrail
    longest_wait_s: float
    abandoned_after_s: float
    # When a key was first not found, by this process's steady clock: what is not found a tool's timeout later is no
    # longer on its way. A process that starts anew only waits once more.
    _missed: dict[str, float] = field(default_factory=dict)

    async def on_claimed(self, job: Job) -> None:
        """A call whose worker died before its end; an approved one is brought to its end by its own job."""
        if job.event.envelope.data.get("proposal_id"):
            return
        claimed = _MODELS[job.event.name].model_validate(job.event.envelope.data)
        if not isinstance(claimed, ev.Claimed):
            return
        spec = self.registry.get(claimed.tool)
        if job.attempt == 1:
            raise RetryLater(max(self.abandoned_after_s, spec.timeout_s if spec else 0))
        await self._resolve(job, claimed.tenant, claimed.key)

    async def on_unknown(self, job: Job) -> None:
        """Nobody knew what became of it: ask the tool again, until it answers or a person settles it."""
        unknown = _MODELS[job.event.name].model_validate(job.event.envelope.data)
        if isinstance(unknown, ev.Unknown):
            await self._resolve(job, unknown.tenant, unknown.key)

    async def _resolve(self, job: Job, tenant: str, key: str) -> None:
        entry = await self.ledger.load(tenant, key)
        claim = entry.claim
        if claim is None:
            return
        spec = self.registry.get(claim.tool)
        if entry.ended:
            self._missed.pop(key, None)
            # Whoever looked it up, or wrote down what a person said, may have died before telling anybody.
            if job.event.name == "unknown":
                await self._report_again(claim, entry)
            return
        untold = spec is None or spec.hooks.lookup is None
        if untold and entry.state is State.UNKNOWN and job.event.name == "claimed":
            return
        if spec is None or (untold and entry.state is State.UNKNOWN):
            raise RetryLater(self.longest_wait_s)  # a person will say
        ended = await self._look_again(job, spec, claim, entry)
        self._missed.pop(key, None)
        if ended.ended:
            await self._report(claim, ended)

    async def _look_again(self, job: Job, spec: ToolSpec, claim: ev.Claimed, entry: Entry) -> Entry:
        """Raises `RetryLater` as long as it is open."""
        effect = await claimed_effect(self.callers, spec, claim)
        missed = self._missed.get(claim.key)
        certain = missed is not None and time.monotonic() - missed >= spec.timeout_s
        try:
            resolved = await self.effects.resolve(effect, entry, settles_absence=certain)
        except LedgerRaceError as error:
            raise RetryLater(_RACE_DELAY_S) from error
        except PlacetError as error:
            if entry.state is State.CLAIMED and job.attempt > _MOST_LOOKUPS_OF_A_CLAIM:
                return await self.effects.give_up(effect, entry, f"could not be looked up: {error.code.value}")
            log.info("still open", key=claim.key, tool=claim.tool, attempt=job.attempt, code=error.code.value)
            raise RetryLater(min(2.0**job.attempt, self.longest_wait_s)) from error
        if resolved.last_seq == entry.last_seq:
            self._missed.setdefault(claim.key, time.monotonic())
            raise RetryLater(spec.timeout_s + _MARGIN_S)
        return resolved

    async def _report_again(self, claim: ev.Claimed, entry: Entry) -> None:
        if entry.settled_by and isinstance(entry.effect, ev.Executed | ev.Failed):
            await confirm(entry, self.callers, self.registry, self.effects)
            person = await self.callers.person(claim.tenant, entry.settled_by)
            await record_settlement(self.audit, person, entry.effect)
        else:
            await self._report(claim, entry)

    async def _report(self, claim: ev.Claimed, entry: Entry) -> None:
        """Ids and the end, no arguments: the record of the call itself has them, masked as policy said then."""
        await self.audit.record(
            claim.tenant,
            "effect-finished",
            action=claim.tool,
            outcome=entry.state.value,
            actor=claim.requester,
            tool=claim.tool,
            approvers=claim.approvers,
            code=entry.code,
            run_id=claim.run_id,
            call_id=claim.call_id,
            proposal_id=claim.proposal_id,
            idempotency_key=claim.key,
            request_id=claim.request_id,
            note="found out later",
        )
