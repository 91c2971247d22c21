"""The line that `placet up` prints once everything is ready."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

PREFIX = "READY "


class ReadyLine(BaseModel):
    """Addresses, a token per demo person, process ids, and which policy engine decides."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    gateway: str
    nats: str
    tokens: dict[str, str]
    pids: dict[str, int]
    policy_engine: Literal["opa", "embedded"]

    @classmethod
    def parse(cls, line: str) -> Self:
        """Raises `ValueError` for anything but a whole READY line."""
        if not line.startswith(PREFIX):
            raise ValueError(f"not a READY line: {line[:80]!r}")
        return cls.model_validate_json(line.removeprefix(PREFIX))

    def render(self) -> str:
        return PREFIX + self.model_dump_json()
