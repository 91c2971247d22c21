"""The bus users' nkeys: seeds stay with their service, the server's configuration gets public keys only."""

from __future__ import annotations

import secrets
from pathlib import Path

import nkeys

from placet.contracts.topology import USERS
from placet.identity.keys import write_secret
from placet.messaging.permissions import nkey_variable


def seed_path(directory: Path, user: str) -> Path:
    return directory / f"{user}.seed"


def write_users(directory: Path) -> dict[str, str]:
    """Make a seed file (mode 0600) per user unless it is there; returns the server's environment (public keys)."""
    directory.mkdir(parents=True, exist_ok=True)
    variables: dict[str, str] = {}
    for user in USERS:
        path = seed_path(directory, user)
        if not path.exists():
            seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
            write_secret(path, seed.decode())
        pair = nkeys.from_seed(path.read_bytes().strip())
        variables[nkey_variable(user)] = pair.public_key.decode()
    lines = "".join(f"{name}={value}\n" for name, value in variables.items())
    (directory / "nats.env").write_text(lines, encoding="utf-8")
    return variables
