"""What a test needs from the machine: skipped where it is absent, failed where the environment requires it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

REQUIRE_OPA = "PLACET_REQUIRE_OPA"
STATE_DIR = "PLACET_STATE_DIR"


class MissingError(RuntimeError):
    """Something that the environment declares required is absent."""


def required(variable: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether `variable` is set to something other than 0, no or false."""
    return environment.get(variable, "").strip().lower() not in ("", "0", "no", "false")


def opa_or_reason(root: Path, environment: Mapping[str, str] = os.environ) -> tuple[Path | None, str]:
    """The `opa` to test with, else why there is none. Raises `MissingError` when `PLACET_REQUIRE_OPA` is set."""
    from placet.policy.opa_binary import find_opa

    state_dir = Path(environment.get(STATE_DIR) or root / ".placet")
    binary = find_opa(state_dir)
    if binary is None:
        reason = "no suitable opa on the path or under .placet/bin (`make opa` obtains it)"
        if required(REQUIRE_OPA, environment):
            raise MissingError(f"{REQUIRE_OPA} is set, but there is {reason}")
        return None, reason
    return binary, ""
