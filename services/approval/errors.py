"""What a decision may be refused with."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.errors import ErrorCode, PlacetError, not_found


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decision that changes nothing, and why. `message` is shown to the person."""

    code: ErrorCode
    message: str

    def as_error(self) -> PlacetError:
        return not_found() if self.code is ErrorCode.NOT_FOUND else PlacetError(self.code, self.message)
