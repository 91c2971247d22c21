"""The states of one effect, folded from the ledger's events (G8)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from placet.contracts import events as ev
from placet.contracts.envelope import Event
from placet.contracts.errors import ErrorCode, PlacetError


class State(StrEnum):
    """`failed` means: nothing took effect. `unknown` blocks the key until a lookup or a person settles it."""

    NOT_EXECUTED = "not_executed"
    CLAIMED = "claimed"
    EXECUTED = "executed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    VERIFIED = "verified"
    VERIFICATION_FAILED = "verification_failed"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key's state. `last_seq` is the predecessor that the next append must name; `claim` is what was to be done."""

    state: State = State.NOT_EXECUTED
    last_seq: int = 0
    effect: Event | None = None
    result: dict[str, Any] | None = None
    code: str | None = None
    message: str = ""
    claim: ev.Claimed | None = None

    @property
    def settled_by(self) -> str | None:
        """The person who said how it ended, where nothing else could."""
        return getattr(self.effect, "settled_by", None)

    @property
    def ended(self) -> bool:
        """Nothing more will happen. What a person has settled is not read back: there is nothing to compare it with."""
        ends = (State.VERIFIED, State.VERIFICATION_FAILED, State.FAILED)
        return self.state in ends or (self.state is State.EXECUTED and self.settled_by is not None)

    def answer(self) -> dict[str, Any]:
        """The first result, for whoever asks again. Raises the first failure, or `outcome_unknown`."""
        if self.state in (State.EXECUTED, State.VERIFIED):
            return self.result or {}
        if self.state is State.FAILED:
            raise PlacetError(_error_code(self.code), self.message)
        if self.state is State.VERIFICATION_FAILED:
            raise PlacetError(ErrorCode.CONFLICT, "It was executed, but reading it back shows something else.")
        raise PlacetError(ErrorCode.OUTCOME_UNKNOWN, "It is not known whether this took effect.")


NOT_EXECUTED = "not_executed"  # the code of a failure that was found out later: by a lookup or by a person


def _error_code(code: str | None) -> ErrorCode:
    """How a failure answers who asks again. What turned out not to have happened may be asked for anew."""
    if code == NOT_EXECUTED:
        return ErrorCode.DEPENDENCY_UNAVAILABLE
    return ErrorCode(code or ErrorCode.INTERNAL)


_STATES: dict[type[Event], State] = {
    ev.Claimed: State.CLAIMED,
    ev.Executed: State.EXECUTED,
    ev.Failed: State.FAILED,
    ev.Unknown: State.UNKNOWN,
    ev.Verified: State.VERIFIED,
    ev.VerificationFailed: State.VERIFICATION_FAILED,
}


def fold(history: Iterable[tuple[int, Event]]) -> Entry:
    """The state after `history`: (stream sequence, event), oldest first."""
    entry = Entry()
    for seq, event in history:
        entry = advance(entry, seq, event)
    return entry


def advance(entry: Entry, seq: int, event: Event) -> Entry:
    state = _STATES.get(type(event))
    if state is None:
        return replace(entry, last_seq=seq)
    result = getattr(event, "result", entry.result)
    code, message = getattr(event, "code", None), getattr(event, "message", "")
    claim = event if isinstance(event, ev.Claimed) else entry.claim
    return replace(
        entry, state=state, last_seq=seq, effect=event, result=result, code=code, message=message, claim=claim
    )
