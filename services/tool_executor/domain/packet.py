"""The packet that an approver signs, from an assessed call (A1, A5)."""

from __future__ import annotations

from typing import Any

from placet.contracts.digests import action_digest, digest
from placet.contracts.policy import Decision
from placet.contracts.proposals import ActionPacket, Challenge, ResourceRef, Rollback
from placet.toolkit import Preview, ResourceView, ToolSpec
from services.tool_executor.domain.facts import resource_ref


def world_digest(
    tenant: str, spec: ToolSpec, arguments: dict[str, Any], resource: ResourceRef | None, policy_revision: str
) -> str:
    return action_digest(
        tenant=tenant,
        tool=spec.name,
        arguments=arguments,
        resource=resource,
        schema_hash=spec.schema_hash(),
        policy_revision=policy_revision,
    )


def build_packet(
    tenant: str,
    spec: ToolSpec,
    arguments: dict[str, Any],
    view: ResourceView | None,
    decision: Decision,
    preview: Preview,
    rollback: Rollback,
) -> ActionPacket:
    """Everything about the action that does not depend on who decides."""
    resource = resource_ref(view)
    touched = preview.touched or ((resource.id,) if resource else ())
    return ActionPacket(
        tool=spec.name,
        tool_version=spec.version,
        title=spec.title,
        arguments=arguments,
        args_digest=digest(arguments),
        schema_hash=spec.schema_hash(),
        digest=world_digest(tenant, spec, arguments, resource, decision.policy_revision),
        resource=resource,
        permissions=_permissions(spec, resource),
        blast_radius=preview.blast_radius or (f"{spec.effect.value}: {', '.join(touched) or spec.title}",),
        preview=preview.changes,
        summary=preview.summary or spec.title,
        rollback=rollback,
        risk=decision.risk,
        policy_revision=decision.policy_revision,
        obligations=decision.obligations,
        challenge=_challenge(arguments, resource, touched) if decision.obligations.challenge else None,
        facts={name: value for name, value in view.facts.items() if name != "tenant"} if view else {},
    )


def _permissions(spec: ToolSpec, resource: ResourceRef | None) -> tuple[str, ...]:
    kind = resource.type if resource else "none"
    return (f"tool:{spec.name}", f"{spec.sensitivity.value}:{kind}")


def _challenge(arguments: dict[str, Any], resource: ResourceRef | None, touched: tuple[str, ...]) -> Challenge:
    """Retype the argument that names the target; without one, the amount; without that, the first argument."""
    names = list(arguments)
    target = next((name for name in names if resource and arguments[name] == resource.id), None)
    amount = "amount" if "amount" in arguments else None
    return Challenge(resources=touched, retype=target or amount or (names[0] if names else ""))


def drift(signed: ActionPacket, now: ActionPacket) -> dict[str, Any]:
    """What has moved between signing and commit: field → {signed, now}. Empty when nothing has (B1).

    A moved resource is explained by the facts that changed with it, `resource.<fact>`: the numbers a person knows.
    """
    pairs: dict[str, tuple[Any, Any]] = {
        "resource": (_version(signed.resource), _version(now.resource)),
        "tool_schema": (signed.schema_hash, now.schema_hash),
        "policy_revision": (signed.policy_revision, now.policy_revision),
        "arguments": (signed.args_digest, now.args_digest),
    }
    if signed.resource != now.resource:
        names = signed.facts | now.facts
        pairs |= {f"resource.{name}": (signed.facts.get(name), now.facts.get(name)) for name in sorted(names)}
    return {name: {"signed": old, "now": new} for name, (old, new) in pairs.items() if old != new}


def gone(signed: ActionPacket) -> dict[str, Any]:
    """As `drift`, for a resource that is no longer there."""
    return {"resource": {"signed": _version(signed.resource), "now": _version(None)}}


def described(diff: dict[str, Any]) -> str:
    """The difference as one sentence, facts before versions."""
    facts = [name for name in diff if name.startswith("resource.")]
    named = facts or list(diff)
    parts = (
        f"{_WORDS.get(name, _fact(name))}: {_text(diff[name]['signed'])} → {_text(diff[name]['now'])}" for name in named
    )
    return "What was approved is not what is there now: " + "; ".join(parts) + "."


_WORDS = {"tool_schema": "the tool", "policy_revision": "the policy", "resource": "version"}


def _fact(name: str) -> str:
    return name.removeprefix("resource.").replace("_", " ")


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(part) for part in value) or "nothing"
    return "nothing" if value is None else str(value)


def _version(resource: ResourceRef | None) -> str:
    return f"{resource.type}/{resource.id}@{resource.version}" if resource else "none"
