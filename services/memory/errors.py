"""What a command on a summary may be refused with, beside a grant that does not hold."""

from __future__ import annotations

from placet.contracts.errors import ErrorCode, PlacetError


def blank_summary() -> PlacetError:
    return PlacetError(ErrorCode.INVALID_REQUEST, "A summary of blanks says nothing; forget it instead.")
