"""Waiting for a part of the house that is away (T4, U3): bounded, with growing pauses, and not counted as a failure.

A run that finds the executor gone is put back and taken up again later, so that a restart costs it a pause and not its
life. What it has waited counts against its wall time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from placet.contracts.errors import ErrorCode

# What a part that is away, or one behind it, is told by.
AWAY = frozenset({ErrorCode.DEPENDENCY_UNAVAILABLE, ErrorCode.POLICY_UNAVAILABLE, ErrorCode.TIMEOUT})
# A call that reached its tool and was not answered in time has been waited for long enough already.
CALL_AWAY = AWAY - {ErrorCode.TIMEOUT}

_FIRST_S, _MOST_S = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Waited:
    """How often and how long a run has waited since it last got on. `unreached` are calls that reached nobody."""

    tries: int = 0
    seconds: float = 0.0
    unreached: frozenset[str] = frozenset()

    def pause_s(self, random: float) -> float:
        """The next pause; `random` is between 0 and 1, so that runs do not all come back at once."""
        return float(min(_MOST_S, _FIRST_S * 2 ** min(self.tries, 10)) * (0.5 + random))

    def more(self, seconds: float, unreached: frozenset[str]) -> Waited:
        return replace(self, tries=self.tries + 1, seconds=round(self.seconds + seconds, 3), unreached=unreached)


NOT_WAITED = Waited()
