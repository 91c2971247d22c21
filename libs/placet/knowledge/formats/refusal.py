"""How a format says no."""

from __future__ import annotations


class Refused(Exception):
    """The file cannot be read. `reason` is a value of `ParseFailure`; `detail` is safe to show."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
