"""NATS subjects: `placet.<tenant>.<owner>.<cmd|evt>.<name>.v1[.<id>]`.

The receiver owns commands, the publisher owns events. Every token is checked, because a tenant or an id with a dot,
a space or a wildcard in it would widen a subject. Wildcards are accepted only by the functions named `…_filter`, which
take no value that came from outside.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ROOT = "placet"
ANY = "*"
_TOKEN = re.compile(r"[A-Za-z0-9_\-=:]{1,128}")

Kind = Literal["cmd", "evt"]


class BadSubjectError(ValueError):
    """A token that must not become part of a subject."""


def token(value: str) -> str:
    """`value` unchanged if it is one safe subject token (1-128 of `A-Za-z0-9_-=:`); raises `BadSubjectError`."""
    if not _TOKEN.fullmatch(value):
        raise BadSubjectError(f"not a subject token: {value[:40]!r}")
    return value


def _token_or_any(value: str) -> str:
    return value if value == ANY else token(value)


def command(tenant: str, owner: str, name: str, entity: str | None = None) -> str:
    """The subject of one command; raises `BadSubjectError` for a token that is none."""
    return command_filter(token(tenant), owner, name, None if entity is None else token(entity))


def command_filter(tenant: str, owner: str, name: str, entity: str | None = None) -> str:
    """Where `owner` listens for the command `name`; `*` is accepted for tenant and entity."""
    base = f"{ROOT}.{_token_or_any(tenant)}.{token(owner)}.cmd.{token(name)}.v1"
    return base if entity is None else f"{base}.{_token_or_any(entity)}"


def event(tenant: str, owner: str, name: str, entity: str) -> str:
    """The subject of one event of one entity; raises `BadSubjectError` for a token that is none."""
    return event_filter(token(tenant), owner, token(name), token(entity))


def event_filter(tenant: str, owner: str, name: str, entity: str) -> str:
    """A filter over stored events; `*` is accepted for tenant, name and entity."""
    return f"{ROOT}.{_token_or_any(tenant)}.{token(owner)}.evt.{_token_or_any(name)}.v1.{_token_or_any(entity)}"


def entity(tenant: str, owner: str, entity_id: str) -> str:
    """The filter over all events of one entity: what compare-and-set counts."""
    return event_filter(token(tenant), owner, ANY, token(entity_id))


@dataclass(frozen=True, slots=True)
class Parsed:
    """A subject taken apart."""

    tenant: str
    owner: str
    kind: Kind
    name: str
    entity: str | None


def parse(subject: str) -> Parsed:
    """Take a subject apart; raises `BadSubjectError` for anything that is not one of ours."""
    parts = subject.split(".")
    if len(parts) not in (6, 7) or parts[0] != ROOT or parts[3] not in ("cmd", "evt") or parts[5] != "v1":
        raise BadSubjectError(f"not a placet subject: {subject[:80]!r}")
    for part in (parts[1], parts[2], parts[4], *parts[6:]):
        token(part)
    kind: Kind = "cmd" if parts[3] == "cmd" else "evt"
    return Parsed(parts[1], parts[2], kind, parts[4], parts[6] if len(parts) == 7 else None)
