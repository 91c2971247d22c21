"""Which engine decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import structlog

from placet.policy.opa import OpaPolicy
from placet.policy.opa_binary import find_opa
from placet.policy.port import PolicyDecisionPoint
from placet.policy.rego import RegoPolicy

EngineChoice = Literal["auto", "opa", "embedded"]

log = structlog.get_logger(__name__)


class EngineMissingError(RuntimeError):
    """OPA was asked for by name and is not there. Never answered with another engine."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What was chosen. `binary` is set exactly for `opa`."""

    name: Literal["opa", "embedded"]
    binary: Path | None = None


def select_engine(choice: EngineChoice, state_dir: Path) -> Engine:
    """For who starts the engine (`placet up`): `auto` takes an OPA that is already there, else the embedded one.

    Raises `EngineMissingError` for `opa` without a binary.
    """
    binary = None if choice == "embedded" else find_opa(state_dir)
    if choice == "opa" and binary is None:
        raise EngineMissingError("no suitable opa on the path or in the state directory; `make opa` obtains it")
    engine = Engine("opa", binary) if binary else Engine("embedded")
    log.info("policy_engine", engine=engine.name, binary=str(binary) if binary else None)
    return engine


async def open_policy(
    choice: EngineChoice, *, policy_dir: Path, opa_url: str, timeout_s: float = 2.0
) -> PolicyDecisionPoint:
    """For a service: the decision point it asks. `auto` takes the OPA at `opa_url` if it answers now.

    Raises `PolicyLoadError` when the embedded engine cannot use `policy_dir`, `ValueError` for a bad URL.
    """
    if choice != "embedded":
        remote = await OpaPolicy.open(opa_url, timeout_s=timeout_s)
        if choice == "opa" or await remote.ready():
            log.info("policy_engine", engine="opa", url=opa_url)
            return remote
        await remote.close()
    embedded = await RegoPolicy.open(policy_dir, timeout_s=timeout_s)
    log.info("policy_engine", engine="embedded", revision=await embedded.revision())
    return embedded
