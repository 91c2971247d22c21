"""The image names, read from docker-compose.yml so that stand-ins and compose file cannot drift apart."""

from __future__ import annotations

import re
from pathlib import Path

COMPOSE = Path("docker-compose.yml")
BASE = "placet/offline-base:bookworm"
STAND_INS = ("nats", "opa", "postgres")
SERVICES = ("gateway", "agent", "tool-executor", "approval", "memory", "provision")
_REPOSITORY = {"nats": "nats", "opa": "openpolicyagent/opa", "postgres": "pgvector/pgvector"}


def image_of(name: str) -> str:
    """The full name with tag that the compose file gives this part. Raises `LookupError` when it names none."""
    repository = _REPOSITORY.get(name, f"placet/{name}")
    pattern = re.compile(rf"^\s+image:\s*({re.escape(repository)}:\S+)\s*$", re.MULTILINE)
    found = set(pattern.findall(COMPOSE.read_text(encoding="utf-8")))
    if len(found) != 1:
        raise LookupError(f"docker-compose.yml names {sorted(found) or 'no image'} for {name}")
    image: str = found.pop()
    return image


def version_of(name: str) -> str:
    """The version in the tag's beginning: `1.22.4` of `openpolicyagent/opa:1.22.4-static`."""
    return image_of(name).rpartition(":")[2].partition("-")[0]
