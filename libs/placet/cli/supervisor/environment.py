"""What each child gets to see: a bare environment, and of the secrets only its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from placet.cli import places
from placet.cli.material import AUDIENCE, ISSUER
from placet.cli.state_dir import StateDir

SERVICES = ("gateway", "agent", "tool-executor", "approval", "memory")

_ORDINARY = ("PATH", "HOME", "USER", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "SYSTEMROOT")
_ORDINARY_PREFIXES = ("LC_", "PYTHON", "SSL_CERT_")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
# Settings that the person who starts us may give to one service, by prefix.
_OWN_PREFIXES: dict[str, tuple[str, ...]] = {
    "gateway": ("PLACET_GATEWAY_",),
    "agent": ("PLACET_AGENT_",),
    "tool-executor": ("PLACET_TOOL_EXECUTOR_", "PLACET_PACK_"),
    "approval": ("PLACET_APPROVAL_",),
    "memory": ("PLACET_MEMORY_",),
    "provision": ("PLACET_PACK_",),
}


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where everything listens. `health` is a port per service that has no HTTP face of its own."""

    nats_url: str
    opa_url: str
    gateway_port: int
    health: Mapping[str, int]
    database_urls: Mapping[str, str]


def bare(given: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that any program needs, and none that could hold a secret of somebody else."""
    kept = {
        name: value
        for name, value in given.items()
        if name in _ORDINARY or name.startswith(_ORDINARY_PREFIXES) or name.upper() in _PROXIES
    }
    return with_bytecode_cache(kept)


def with_bytecode_cache(given: Mapping[str, str]) -> dict[str, str]:
    """Where byte code may not be written beside the sources, keep it under `.placet/pycache` instead.

    Without any, every start of a service compiles all that it imports: three times the processor time (measured:
    3.9 s against 1.2 s for the executor), at each healing too.
    """
    made = dict(given)
    if made.pop("PYTHONDONTWRITEBYTECODE", "") and "PYTHONPYCACHEPREFIX" not in made:
        made["PYTHONPYCACHEPREFIX"] = str(places.project_dir() / ".placet" / "pycache")
    return made


def of_service(
    service: str,
    state: StateDir,
    addresses: Addresses,
    *,
    engine: str,
    policies: Path,
    given: Mapping[str, str] = os.environ,
) -> dict[str, str]:
    """The environment of one of the five services (`python -m services.<name>`)."""
    own = {name: value for name, value in given.items() if name.startswith(_OWN_PREFIXES[service])}
    common = {
        "PLACET_NATS_URL": addresses.nats_url,
        "PLACET_NATS_SEED_FILE": str(state.bus_users / f"{service}.seed"),
        "PLACET_STATE_DIR": str(state.scratch(service)),
        "PLACET_HEALTH_PORT": str(addresses.health.get(service, 0)),
        "PLACET_LOG_LEVEL": given.get("PLACET_LOG_LEVEL", "INFO"),
        "PLACET_GRANT_PUBLIC_FILE": str(state.keys / "grant.public.jwk"),
        "PLACET_APPROVAL_PUBLIC_FILE": str(state.keys / "approval.public.jwk"),
        "PLACET_EFFECT_PUBLIC_FILE": str(state.keys / "effect.public.jwk"),
        "PYTHONUNBUFFERED": "1",
    }
    return bare(given) | own | common | _particular(service, state, addresses, engine, policies)


def _particular(service: str, state: StateDir, addresses: Addresses, engine: str, policies: Path) -> dict[str, str]:
    policy = {
        "PLACET_POLICY_ENGINE": engine,
        "PLACET_POLICY_DIR": str(policies),
        "PLACET_OPA_URL": addresses.opa_url,
    }
    if service == "gateway":
        return {
            "PLACET_GATEWAY_HOST": "127.0.0.1",
            "PLACET_GATEWAY_PORT": str(addresses.gateway_port),
            "PLACET_GATEWAY_JWKS_FILE": str(state.keys / "jwks.json"),
            "PLACET_GATEWAY_ISSUER": ISSUER,
            "PLACET_GATEWAY_AUDIENCE": AUDIENCE,
            "PLACET_GATEWAY_GRANT_KEY_FILE": str(state.keys / "grant.private.jwk"),
            "PLACET_GATEWAY_GRACE_S": "10",  # shorter than ours, so that it ends by itself
        }
    if service == "agent":
        return {"PLACET_DATABASE_URL": addresses.database_urls["agent"]}
    if service == "tool-executor":
        return policy | {
            "PLACET_DATABASE_URL": addresses.database_urls["executor"],
            "PLACET_READONLY_DATABASE_URL": addresses.database_urls["reader"],
            "PLACET_EFFECT_SIGNING_KEY_FILE": str(state.keys / "effect.private.jwk"),
        }
    if service == "approval":
        return policy | {
            "PLACET_DATABASE_URL": addresses.database_urls["approval"],
            "PLACET_APPROVAL_SIGNING_KEY_FILE": str(state.keys / "approval.private.jwk"),
            "PLACET_AUDIT_SIGNING_KEY_FILE": str(state.keys / "audit.private.jwk"),
        }
    return {}


def of_provisioning(
    state: StateDir, nats_url: str, admin_url: str, passwords: Mapping[str, str], given: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment of `placet provision`, the only one that holds the administrator's rights."""
    own = {name: value for name, value in given.items() if name.startswith(_OWN_PREFIXES["provision"])}
    roles = {f"PLACET_DATABASE_{role.upper()}_PASSWORD": password for role, password in passwords.items()}
    return (
        bare(given)
        | own
        | roles
        | {
            "PLACET_NATS_URL": nats_url,
            "PLACET_NATS_SEED_FILE": str(state.bus_users / "provision.seed"),
            "PLACET_DATABASE_ADMIN_URL": admin_url,
            "PLACET_SEED_DEMO": "1",
            "PYTHONUNBUFFERED": "1",
        }
    )
