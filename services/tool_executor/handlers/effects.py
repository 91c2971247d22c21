"""Making an effect happen once: claim, look up, run, read back (G8, W9).

The claim is a compare-and-set on the key, written before the handler runs. Killed after it, the next worker finds the
claim and looks up whether the effect took place before it does anything else; what cannot be looked up is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.policy import Spending
from placet.contracts.tools import RetryClass
from placet.observability import logs, metrics
from placet.toolkit import RollbackPlan, ToolContext, ToolResult, ToolSpec, Verification
from services.tool_executor.domain.ledger import NOT_EXECUTED, Entry, State
from services.tool_executor.domain.rollback import rollback_id
from services.tool_executor.handlers.assessment import within
from services.tool_executor.ports import EffectLedger, TenantSpending

log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect to be made: the validated call, under its key. `spending`: what it counts for while it is open."""

    key: str
    spec: ToolSpec
    context: ToolContext
    args: BaseModel
    arguments: dict[str, Any]
    args_digest: str
    requester: str
    proposal_id: str | None = None
    spending: Spending | None = None

    def identity(self) -> dict[str, Any]:
        """The fields that every event of this effect carries."""
        return {
            "key": self.key,
            "tool": self.spec.name,
            "tenant": self.context.tenant,
            "requester": self.requester,
            "proposal_id": self.proposal_id,
            "run_id": self.context.run_id,
            "call_id": self.context.call_id,
            "request_id": self.context.request_id,
        }


@dataclass(frozen=True, slots=True)
class EffectRunner:
    ledger: EffectLedger
    spending: TenantSpending
    worker: str

    async def run(self, effect: Effect, entry: Entry, *, last_attempt: bool = False) -> Entry:
        """Bring the effect to its end and return the entry there.

        Raises a retryable `PlacetError` when it is open and worth another try (the claim stays; the next try looks
        up first), `LedgerRaceError` when another worker has the key. On the last attempt, open becomes `unknown`.
        """
        if entry.ended or entry.state is State.UNKNOWN:
            return entry
        if entry.state is State.EXECUTED:
            return await self._read_back(effect, entry, entry.result or {})
        if entry.state is State.NOT_EXECUTED:
            if not await self._within_the_day(effect):
                return await self.fail(effect, entry, _DAY_IS_SPENT)
            entry = await self._claim(effect, entry)
        else:
            found = await self._look_up_or_block(effect, entry, last_attempt=last_attempt)
            if found is not None:
                return found
        return await self._execute(effect, entry, last_attempt=last_attempt)

    async def resolve(self, effect: Effect, entry: Entry, *, settles_absence: bool) -> Entry:
        """Find out what became of an effect that is open or `unknown`, without making it happen.

        Nobody waits for it any more and nobody agreed to it happening now, so what the lookup does not find has not
        happened: it ends `failed`. Until `settles_absence`, a request may still be on its way, and it stays as it is.
        Raises a retryable `PlacetError` when the tool could not be asked, `LedgerRaceError` as `run` does.
        """
        if entry.ended:
            return entry
        if entry.state is State.EXECUTED:
            return await self._read_back(effect, entry, entry.result or {})
        if effect.spec.hooks.lookup is None:
            return entry if entry.state is State.UNKNOWN else await self._unknown(effect, entry, _UNTOLD)
        result = await self._look_up(effect)
        if result is not None:
            return await self._executed(effect, entry, result, by_lookup=True)
        return await self._absent(effect, entry) if settles_absence else entry

    async def fail(self, effect: Effect, entry: Entry, error: PlacetError) -> Entry:
        """Write down that nothing took effect, and why."""
        code = error.code.value
        event = ev.Failed(**effect.identity(), code=code, message=error.message, details=error.details)
        return await self._append(effect, "failed", event, entry)

    async def release(self, effect: Effect) -> None:
        """Let the tool know that the key never took effect and never will, before that is written down.

        Killed in between, it is told again. Raises a retryable `PlacetError` when it could not be told.
        """
        spec = effect.spec
        if spec.hooks.release:
            await within(spec, spec.hooks.release(effect.context, effect.args))
        await self.spending.release(effect.context.tenant, effect.key)

    async def confirm(self, effect: Effect) -> None:
        """Let the tool know that a person says the key took effect. Raises `PlacetError` when it could not be told."""
        spec = effect.spec
        if spec.hooks.confirm:
            await within(spec, spec.hooks.confirm(effect.context, effect.args))

    async def give_up(self, effect: Effect, entry: Entry, reason: str) -> Entry:
        """Write down that nobody can tell, which blocks the key until a lookup or a person settles it."""
        return await self._unknown(effect, entry, reason)

    async def _within_the_day(self, effect: Effect) -> bool:
        """Reserved before the claim, under the same key: killed in between, the next try finds it reserved."""
        spending = effect.spending
        if spending is None or spending.per_day is None:
            return True
        return await self.spending.reserve(effect.context.tenant, effect.key, spending.amount, spending.per_day)

    async def _claim(self, effect: Effect, entry: Entry) -> Entry:
        event = ev.Claimed(
            **effect.identity(),
            args_digest=effect.args_digest,
            arguments=effect.arguments,
            approvers=effect.context.approvers,
            worker=self.worker,
        )
        return await self._append(effect, "claimed", event, entry)

    async def _look_up(self, effect: Effect) -> ToolResult | None:
        """What the key led to. Raises a retryable `PlacetError` when the tool gave no answer, whatever the reason."""
        spec = effect.spec
        if spec.hooks.lookup is None:
            raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "This tool cannot be asked what became of a call.")
        try:
            return await within(spec, spec.hooks.lookup(effect.context, effect.args))
        except PlacetError as error:
            raise _open_end(error) from error
        except Exception as error:
            log.exception("lookup failed", tool=spec.name, key=effect.key)
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The tool failed unexpectedly.") from error

    async def _look_up_or_block(self, effect: Effect, entry: Entry, *, last_attempt: bool) -> Entry | None:
        """After an earlier claim without an end. None: it did not take effect, and may be run under the same key."""
        if not effect.spec.writes:
            return None  # a gated read changes nothing, however often it is made
        if effect.spec.hooks.lookup is None:
            return await self._unknown(effect, entry, _UNTOLD)
        try:
            result = await self._look_up(effect)
        except PlacetError as error:
            if not last_attempt:
                raise
            return await self._unknown(effect, entry, f"could not be looked up: {error.code.value}")
        if result is not None:
            return await self._executed(effect, entry, result, by_lookup=True)
        if effect.spec.retry is RetryClass.NEVER:
            return await self._unknown(effect, entry, "not found by lookup, and this tool is never called twice")
        return None

    async def _execute(self, effect: Effect, entry: Entry, *, last_attempt: bool) -> Entry:
        try:
            result = await within(effect.spec, effect.spec.handler(effect.context, effect.args))
        except PlacetError as error:
            if not error.retryable and error.code is not ErrorCode.OUTCOME_UNKNOWN:
                return await self.fail(effect, entry, error)
            return await self._after_open_end(effect, entry, error, last_attempt=last_attempt)
        except Exception as error:
            log.exception("tool failed", tool=effect.spec.name, key=effect.key)
            problem = PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The tool failed unexpectedly.")
            problem.__cause__ = error
            return await self._after_open_end(effect, entry, problem, last_attempt=last_attempt)
        if not isinstance(result, ToolResult):
            problem = PlacetError(ErrorCode.INTERNAL, "A write may not hand over to another tool.")
            return await self.fail(effect, entry, problem)
        return await self._executed(effect, entry, result)

    async def _after_open_end(self, effect: Effect, entry: Entry, error: PlacetError, *, last_attempt: bool) -> Entry:
        """The handler ended without saying whether it took effect: ask, and if nobody knows, try again later."""
        settled = await self._look_up_or_block(effect, entry, last_attempt=last_attempt)
        if settled is not None:
            return settled
        if last_attempt and not effect.spec.writes:
            return await self.fail(effect, entry, error)
        if last_attempt:
            return await self._unknown(effect, entry, f"gave up after repeated tries: {error.code.value}")
        raise _open_end(error)

    async def _executed(self, effect: Effect, entry: Entry, result: ToolResult, *, by_lookup: bool = False) -> Entry:
        event = ev.Executed(**effect.identity(), result=result.data, found_by_lookup=by_lookup)
        entry = await self._append(effect, "executed", event, entry)
        return await self._read_back(effect, entry, result.data)

    async def _read_back(self, effect: Effect, entry: Entry, data: dict[str, Any]) -> Entry:
        """Raises a retryable `PlacetError` when the tool cannot be asked now: it is asked again, without end."""
        verification = await self._verify(effect, ToolResult(data))
        if verification.ok:
            return await self._append(effect, "verified", ev.Verified(**effect.identity(), result=data), entry)
        plan = await self._compensation(effect, ToolResult(data))
        failed = ev.VerificationFailed(
            **effect.identity(),
            result=data,
            observed=verification.observed,
            rollback=self._offered(effect, plan) if plan else None,
        )
        return await self._append(effect, "verification-failed", failed, entry)

    def _offered(self, effect: Effect, plan: RollbackPlan) -> dict[str, Any]:
        proposal_id = rollback_id(effect.context.tenant, effect.key)
        return {"tool": plan.tool, "arguments": plan.arguments, "proposal_id": proposal_id}

    async def _verify(self, effect: Effect, result: ToolResult) -> Verification:
        spec = effect.spec
        if spec.hooks.verify is None:
            return Verification(ok=True)
        try:
            return await within(spec, spec.hooks.verify(effect.context, effect.args, result))
        except PlacetError as error:
            if error.retryable:
                raise
            return Verification(ok=False, observed={"read_back": error.code.value})

    async def _compensation(self, effect: Effect, result: ToolResult) -> RollbackPlan | None:
        spec = effect.spec
        if spec.hooks.compensate is None:
            return None
        return await within(spec, spec.hooks.compensate(effect.context, effect.args, result))

    async def _absent(self, effect: Effect, entry: Entry) -> Entry:
        await self.release(effect)
        event = ev.Failed(**effect.identity(), code=NOT_EXECUTED, message="It was looked up: it did not take effect.")
        return await self._append(effect, "failed", event, entry)

    async def _unknown(self, effect: Effect, entry: Entry, reason: str) -> Entry:
        return await self._append(effect, "unknown", ev.Unknown(**effect.identity(), reason=reason), entry)

    async def _append(self, effect: Effect, name: str, event: Event, entry: Entry) -> Entry:
        metrics.EFFECTS.labels(effect.spec.name, name).inc()
        tenant = effect.context.tenant
        entry = await self.ledger.append(tenant, effect.key, name, event, entry)
        if effect.spending:
            await self.close_spending(tenant, effect.key, entry)
        return entry

    async def close_spending(self, tenant: str, key: str, entry: Entry) -> None:
        """What was reserved under the key is spent or given back, once its end is known. Repeating changes nothing."""
        if entry.state is State.FAILED:
            await self.spending.release(tenant, key)
        elif entry.ended:
            self.spending.keep(tenant, key)


_DAY_IS_SPENT = PlacetError(ErrorCode.LIMIT_REACHED, "What may be spent today is spent.", rule="tenant_day")
_UNTOLD = "a worker ended between claim and outcome, and nothing tells"


def _open_end(error: PlacetError) -> PlacetError:
    """What the caller is told of an end that is still open: it may ask again."""
    return error if error.retryable else PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, error.message)
