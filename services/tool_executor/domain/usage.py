"""What has been used of a limit: by a run, and by a tenant on one day. Pure; the bus makes it race-safe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class RunUse:
    """`spends` by call, so that a call made twice counts once; `firsts`: the first call of each fingerprint (W8).

    What a run has asked people to spend counts whether they agree or not: it is the run that is limited here.
    """

    calls: int = 0
    spends: Mapping[str, str] = field(default_factory=dict)
    firsts: Mapping[str, str] = field(default_factory=dict)

    @property
    def spent(self) -> float:
        return float(sum((Decimal(amount) for amount in self.spends.values()), Decimal(0)))

    def spent_without(self, call_id: str) -> float:
        return replace(self, spends={call: amount for call, amount in self.spends.items() if call != call_id}).spent

    def spending(self, call_id: str, amount: float) -> RunUse:
        return replace(self, spends=dict(self.spends) | {call_id: str(Decimal(str(amount)))})

    def as_json(self) -> dict[str, Any]:
        return {"calls": self.calls, "spends": dict(self.spends), "firsts": dict(self.firsts)}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RunUse:
        return cls(int(document["calls"]), document["spends"], document["firsts"])


@dataclass(frozen=True, slots=True)
class DaySpending:
    """`spent` is over and done; `open` are effects on their way, by key: counted as if they would all take place."""

    spent: Decimal = Decimal(0)
    open: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def used(self) -> Decimal:
        return self.spent + sum(self.open.values(), Decimal(0))

    def reserve(self, key: str, amount: Decimal, limit: Decimal) -> DaySpending | None:
        """None when the limit would be exceeded. Reserving again under one key changes nothing."""
        if key in self.open:
            return self
        if self.used + amount > limit:
            return None
        return replace(self, open=dict(self.open) | {key: amount})

    def close(self, key: str, *, took_effect: bool) -> DaySpending:
        """The effect's end is known. A key that is not open changes nothing."""
        if key not in self.open:
            return self
        rest = {other: amount for other, amount in self.open.items() if other != key}
        return DaySpending(self.spent + (self.open[key] if took_effect else Decimal(0)), rest)

    def as_json(self) -> dict[str, Any]:
        return {"spent": str(self.spent), "open": {key: str(amount) for key, amount in self.open.items()}}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> DaySpending:
        return cls(Decimal(document["spent"]), {key: Decimal(amount) for key, amount in document["open"].items()})
