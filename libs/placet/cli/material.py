"""Every key, seed and password of one installation, made once and kept: nothing secret has a default."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from placet.identity import keys as key_files

SIGNING_KEYS = ("grant", "approval", "effect", "audit", "issuer")
ISSUER = "https://issuer.placet.local"
AUDIENCE = "placet"
DATABASE_ROLES = ("owner", "executor", "agent", "approval", "reader")


@dataclass(frozen=True, slots=True)
class Material:
    """`bus_keys`: the public nkeys as the server's environment. `database`: role (`owner`, ...) -> password."""

    bus_keys: dict[str, str]
    database: dict[str, str]


def ensure(keys: Path, bus_users: Path, database_passwords: Path) -> Material:
    """Make what is missing; what is there stays, so that a restart keeps every signature and grant valid."""
    from placet.messaging.credentials import write_users

    pairs = {name: key_files.write_pair(keys, name) for name in SIGNING_KEYS}
    jwks = key_files.key_set(pairs["issuer"]).as_dict(private=False)
    (keys / "jwks.json").write_text(json.dumps(jwks), encoding="utf-8")
    return Material(write_users(bus_users), _passwords(database_passwords))


def tokens(keys: Path, people: dict[str, tuple[str, str]], lifetime_s: int = 86_400) -> dict[str, str]:
    """A token per name, by the local issuer; `people` maps a name to (tenant, user).

    Raises `FileNotFoundError` when there is no issuer key.
    """
    from placet.identity.tokens import LocalIssuer

    issuer = LocalIssuer(key_files.read(keys / "issuer.private.jwk"), ISSUER, AUDIENCE)
    return {name: issuer.issue(tenant, user, lifetime_s) for name, (tenant, user) in people.items()}


def password(file: Path) -> str:
    """A random password, made once and kept in `file`; safe in a URL without quoting."""
    if not file.exists():
        key_files.write_secret(file, secrets.token_urlsafe(24))
    return file.read_text(encoding="utf-8")


def _passwords(file: Path) -> dict[str, str]:
    known: dict[str, str] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    missing = [role for role in DATABASE_ROLES if role not in known]
    if missing:
        known |= {role: secrets.token_urlsafe(24) for role in missing}
        key_files.write_secret(file, json.dumps(known))
    return known
