"""The server's accounts and permissions, generated from the contracts: nothing here is written by hand twice.

Permissions inside one account are not enough: a server does not check the *reply* subject of a request, so whoever
may publish a request could have an answer planted into a stream. Hence one account per trust domain: a reply is
delivered in the asker's own account, where no stream listens.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS
from placet.contracts.topology import (
    BUCKETS,
    CORE_API_PREFIX,
    DURABLES,
    FOLLOWERS,
    OBJECT_BUCKETS,
    READERS,
    SERVICE_DOMAIN,
    STORED_PREFIX,
    STREAMS,
    USERS,
    WRITERS,
    Domain,
)

_API = "$JS.API"


@dataclass(frozen=True, slots=True, order=True)
class Export:
    """`subject` of CORE (or AGENT) offered to another account; `streamed` for many replies to one request."""

    subject: str
    kind: str = "service"
    streamed: bool = False


@dataclass(slots=True)
class UserRights:
    publish: set[str] = field(default_factory=set)
    subscribe: set[str] = field(default_factory=set)
    responds: bool = False


def _api_calls(user: str) -> dict[str, bool]:
    """JetStream API subjects (below the prefix) that `user` needs -> whether they answer with many messages."""
    calls: dict[str, bool] = {}
    for durable in DURABLES:
        if durable.user == user:
            calls[f"CONSUMER.INFO.{durable.stream}.{durable.name}"] = False
            calls[f"CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}"] = True
    readable = [reader.stream for reader in READERS if reader.user == user]
    readable += [f"KV_{bucket.name}" for bucket in BUCKETS if user in (*bucket.readers, *bucket.writers)]
    readable += [f"OBJ_{bucket.name}" for bucket in OBJECT_BUCKETS if user in bucket.users]
    for stream in readable:
        calls[f"DIRECT.GET.{stream}"] = True
        calls[f"DIRECT.GET.{stream}.>"] = False
        calls[f"STREAM.MSG.GET.{stream}"] = False
    return calls


def _writes(user: str) -> set[str]:
    """Stream subjects that `user` may publish to, acknowledgements and keys included."""
    allowed = {f"placet.*.{writer.owner}.evt.>" for writer in WRITERS if user in writer.users}
    allowed |= {f"$KV.{bucket.name}.>" for bucket in BUCKETS if user in bucket.writers}
    allowed |= {f"$O.{bucket.name}.>" for bucket in OBJECT_BUCKETS if user in bucket.users}
    allowed |= {f"$JS.ACK.{durable.stream}.{durable.name}.>" for durable in DURABLES if durable.user == user}
    if any(durable.user == user and durable.stream == "TIMERS" for durable in DURABLES):
        allowed.add(f"timers.at.{user}.>")
    return allowed


def _commands_sent(user: str) -> dict[str, str]:
    """Command subjects that `user` may send -> their owner."""
    sent: dict[str, str] = {}
    for spec in COMMANDS:
        if user in spec.callers:
            entity = subjects.ANY if spec.reply is None else None
            sent[subjects.command_filter(subjects.ANY, spec.owner, spec.name, entity)] = spec.owner
    return sent


def _commands_taken(user: str) -> set[str]:
    return {
        subjects.command_filter(subjects.ANY, spec.owner, spec.name)
        for spec in COMMANDS
        if spec.owner == user and spec.reply is not None
    }


def _home(subject: str, owner: str) -> Domain:
    """The account where a command arrives: its owner's, unless a stream of CORE takes it."""
    queued = any(subject in stream.subjects for stream in STREAMS)
    return Domain.CORE if queued else SERVICE_DOMAIN[owner]


def rights(user: str) -> UserRights:
    """What one user may publish and subscribe to, in the names of its own account."""
    result = UserRights()
    domain = SERVICE_DOMAIN[user]
    prefix = _API if domain is Domain.CORE else CORE_API_PREFIX
    # For the answers to its own requests; each user has a name of its own to be answered under.
    result.subscribe.add(f"_INBOX_{user}.>")
    result.publish |= {f"{prefix}.{call}" for call in _api_calls(user)} | _writes(user) | set(_commands_sent(user))
    taken = _commands_taken(user)
    result.subscribe |= taken
    result.responds = bool(taken)
    for owner in FOLLOWERS.get(user, ()):
        result.subscribe.add(_followed(domain, owner))
    return result


def _followed(domain: Domain, owner: str) -> str:
    """Under which name stored events of an owner are followed.

    For auditors, one subject for all owners: a server refuses a subscription that is wider than what is allowed, and
    nothing but what is imported can arrive in their account.
    """
    return "placet.*.*.evt.>" if domain is Domain.AUDIT else f"{STORED_PREFIX}.placet.*.{owner}.evt.>"


def exports(home: Domain) -> dict[Export, set[Domain]]:
    """What account `home` offers, and to which accounts."""
    offered: dict[Export, set[Domain]] = {}

    def offer(export: Export, domain: Domain) -> None:
        if domain is not home:
            offered.setdefault(export, set()).add(domain)

    for user in USERS:
        domain = SERVICE_DOMAIN[user]
        for subject, owner in _commands_sent(user).items():
            if _home(subject, owner) is home:
                offer(Export(subject), domain)
        if home is not Domain.CORE:
            continue
        for call, streamed in _api_calls(user).items():
            offer(Export(f"{_API}.{call}", streamed=streamed), domain)
        for subject in _writes(user):
            offer(Export(subject), domain)
        for owner in FOLLOWERS.get(user, ()):
            offer(Export(f"{STORED_PREFIX}.placet.*.{owner}.evt.>", kind="stream"), domain)
    return offered


def imports(domain: Domain) -> list[tuple[Domain, Export, str]]:
    """What account `domain` takes from others: (from, what, under which local name)."""
    taken: list[tuple[Domain, Export, str]] = []
    for home in (Domain.CORE, Domain.AGENT):
        for export, domains in exports(home).items():
            if domain not in domains:
                continue
            local = export.subject
            if local.startswith(f"{_API}."):
                local = CORE_API_PREFIX + local.removeprefix(_API)
            elif export.kind == "stream" and domain is Domain.AUDIT:
                local = local.removeprefix(f"{STORED_PREFIX}.")
            taken.append((home, export, local))
    return sorted(taken, key=lambda item: item[1])


def _quoted(values: Iterable[str], indent: str) -> str:
    return "[\n" + "".join(f'{indent}  "{value}"\n' for value in sorted(values)) + f"{indent}]"


def nkey_variable(user: str) -> str:
    """The environment variable with the public nkey of `user`, as the server's configuration names it."""
    return "NKEY_" + user.upper().replace("-", "_")


def _render_user(user: str) -> str:
    if user == "provision":
        return f"      {{ nkey: ${nkey_variable(user)} }}\n"
    own = rights(user)
    publish = f"allow: {_quoted(own.publish, '          ')}" if own.publish else 'deny: ">"'
    responses = '        allow_responses: { max: 1, expires: "2m" }\n' if own.responds else ""
    return (
        f"      {{ nkey: ${nkey_variable(user)}, permissions: {{\n"
        f"        publish: {{ {publish} }}\n"
        f"        subscribe: {{ allow: {_quoted(own.subscribe, '          ')} }}\n"
        f"{responses}      }} }}\n"
    )


def _render_export(export: Export, domains: set[Domain]) -> str:
    streamed = ", response_type: stream" if export.streamed else ""
    accounts = ", ".join(sorted(domains))
    return f'      {{ {export.kind}: "{export.subject}"{streamed}, accounts: [{accounts}] }}\n'


def _render_import(home: Domain, export: Export, local: str) -> str:
    renamed = f', to: "{local}"' if local != export.subject else ""
    return f'      {{ {export.kind}: {{ account: {home}, subject: "{export.subject}" }}{renamed} }}\n'


def _render_account(domain: Domain) -> str:
    users = "".join(_render_user(user) for user in USERS if SERVICE_DOMAIN[user] is domain)
    parts = [f"  {domain} {{\n"]
    if domain is Domain.CORE:
        parts.append("    jetstream: enabled\n")
    parts.append(f"    users: [\n{users}    ]\n")
    offered = exports(domain)
    if offered:
        lines = "".join(_render_export(export, offered[export]) for export in sorted(offered))
        parts.append(f"    exports: [\n{lines}    ]\n")
    taken = imports(domain)
    if taken:
        parts.append(f"    imports: [\n{''.join(_render_import(*item) for item in taken)}    ]\n")
    parts.append("  }\n")
    return "".join(parts)


def render_accounts() -> str:
    """The `accounts` block of the server's configuration. Public keys come from the environment (`NKEY_<USER>`)."""
    body = "".join(_render_account(domain) for domain in Domain)
    return (
        "# Generated by `placet generate` from placet.contracts; do not edit.\n"
        f"accounts {{\n  SYS {{}}\n{body}}}\nsystem_account: SYS\n"
    )
