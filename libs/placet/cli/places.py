"""Where the policies and the demo world lie: a checkout, an image, or wherever the environment says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_SOURCE_TREE = Path(__file__).resolve().parents[3]


class NotHereError(FileNotFoundError):
    """A directory that is needed is nowhere; the message names the variable to set."""


def policy_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`PLACET_POLICY_DIR`, else `policies/` of the working directory or of the source tree."""
    return _find("policies", "PLACET_POLICY_DIR", environment)


def seeds_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """`PLACET_SEEDS_DIR`, else `seeds/` of the working directory or of the source tree."""
    return _find("seeds", "PLACET_SEEDS_DIR", environment)


def project_dir() -> Path:
    """Where `.placet/` belongs when nothing else is said: `.placet/bin/opa` is looked for here."""
    return _SOURCE_TREE if (_SOURCE_TREE / "pyproject.toml").exists() else Path.cwd()


def _find(name: str, variable: str, environment: Mapping[str, str]) -> Path:
    said = environment.get(variable)
    candidates = [Path(said)] if said else [Path.cwd() / name, _SOURCE_TREE / name]
    for candidate in candidates:
        if candidate.is_dir():
            return candidate.resolve()
    raise NotHereError(f"no directory {candidates[0]}; set {variable}")
