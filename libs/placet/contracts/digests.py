"""Digests over canonical JSON (RFC 8785): what an approver signs, and the key under which an effect happens once."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import ResourceRef


def canonical(value: Any) -> bytes:
    """Raises `PlacetError(invalid_arguments)` for values JSON cannot hold exactly (NaN, huge integers)."""
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, ValueError, TypeError) as error:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "The arguments hold a value that is not exact JSON.") from error


def digest(value: Any) -> str:
    """`sha256:<hex>` over the canonical form."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def action_digest(
    *,
    tenant: str,
    tool: str,
    arguments: dict[str, Any],
    resource: ResourceRef | None,
    schema_hash: str,
    policy_revision: str,
) -> str:
    """The world-bound digest (A1): arguments, resource version, tool schema and policy revision in one."""
    return digest(
        {
            "tenant": tenant,
            "tool": tool,
            "arguments": arguments,
            "resource": resource.model_dump() if resource else None,
            "schema": schema_hash,
            "policy": policy_revision,
        }
    )


def idempotency_key(*, tenant: str, tool: str, target: str, args_digest: str, occasion: str) -> str:
    """The system's key of one effect (G8). `occasion` is the proposal's or the call's id: never from the model."""
    parts = {"tenant": tenant, "tool": tool, "target": target, "args": args_digest, "occasion": occasion}
    return "eff-" + hashlib.sha256(canonical(parts)).hexdigest()[:40]


def derived_id(prefix: str, *parts: str) -> str:
    """A stable id from other ids, so that asking twice names the same thing."""
    return f"{prefix}-" + hashlib.sha256(canonical(list(parts))).hexdigest()[:26]


def proposal_id_of(tenant: str, requester: str, run_id: str | None, call_id: str) -> str:
    """Comes from the call, so that a call made twice is one proposal, and a run knows the ids of its own."""
    return derived_id("prop", tenant, requester, run_id or "", call_id)
