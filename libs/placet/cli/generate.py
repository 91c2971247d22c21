"""Files made from the contracts: AsyncAPI, OpenAPI, the bus's accounts, and the golden schema and payload per message.

`generate(root, check=True)` compares and writes nothing; it is part of `make check`. Golden files hold v1 fast: a
schema that gained more than optional fields is reported and not overwritten, and a payload once written is kept for
good, so that what was stored yesterday is read by the models of today.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from placet.contracts import asyncapi
from placet.contracts.compatibility import problems
from placet.contracts.envelope import Envelope
from placet.contracts.examples import example
from placet.contracts.registry import COMMANDS, EVENTS
from placet.messaging.permissions import render_accounts
from placet.messaging.server import render_server

GOLDEN = Path("tests/contracts/golden")
# By name: the library does not import services.
OPENAPI = "services.gateway.openapi:document"


@dataclass(frozen=True, slots=True)
class Golden:
    """One message whose shape is held fast."""

    name: str
    model: type[BaseModel]

    def schema_text(self) -> str:
        return _json(self.model.model_json_schema())


def goldens() -> list[Golden]:
    """Every message, its reply, and the envelope around them."""
    found = [Golden("envelope", Envelope)]
    for command in COMMANDS:
        found.append(Golden(f"{command.owner}.{command.name}", command.model))
        if command.reply:
            found.append(Golden(f"{command.owner}.{command.name}.reply", command.reply))
    return found + [Golden(f"{event.owner}.{event.name}", event.model) for event in EVENTS]


def documents() -> dict[Path, Callable[[], str]]:
    """Where each generated document lies below the repository -> what makes it."""
    return {
        Path("deploy/asyncapi.yaml"): lambda: _yaml(asyncapi.document(version("placet"))),
        Path("deploy/openapi.json"): lambda: _json(_load(OPENAPI)()),
        Path("deploy/nats/accounts.conf"): render_accounts,
        Path("deploy/nats/nats.conf"): lambda: render_server(
            "0.0.0.0:4222", "/data", "include accounts.conf\n", "0.0.0.0:8222"
        ),
    }


def generate(root: Path, check: bool, *, accept_breaking: bool = False) -> list[str]:
    """Write what is out of date below `root`, or with `check` only report it. One line per problem; empty: all well.

    `accept_breaking` lets golden files change beyond the rule of v1: for messages that were never released.
    """
    found: list[str] = []
    for path, make in documents().items():
        found += _settle_document(root, path, make, check)
    for golden in goldens():
        found += _settle_schema(root, golden, check, accept_breaking)
        found += _settle_payload(root, golden, check, accept_breaking)
    for path in _strangers(root):
        if accept_breaking and not check:
            path.unlink()
        else:
            found.append(f"{path.relative_to(root)}: no such message any more; v1 loses none")
    return found


def _settle_document(root: Path, path: Path, make: Callable[[], str], check: bool) -> list[str]:
    try:
        text = make()
    except (ImportError, AttributeError) as error:
        return [f"{path}: cannot be made here ({error})"]
    if _read(root / path) == text:
        return []
    if check:
        return [f"{path}: not what the contracts say (`placet generate` writes it)"]
    _write(root / path, text)
    return []


def _settle_schema(root: Path, golden: Golden, check: bool, accept_breaking: bool) -> list[str]:
    path = GOLDEN / f"{golden.name}.schema.json"
    before, after = _read(root / path), golden.schema_text()
    if before == after:
        return []
    broken = problems(json.loads(before), json.loads(after)) if before is not None else []
    if check or (broken and not accept_breaking):
        return [f"{path}: {line}" for line in broken] or [f"{path}: not the model's schema any more"]
    _write(root / path, after)
    return []


def _settle_payload(root: Path, golden: Golden, check: bool, accept_breaking: bool) -> list[str]:
    path = GOLDEN / f"{golden.name}.payload.json"
    stored = _read(root / path)
    trouble = "missing" if stored is None else unreadable(golden.model, json.loads(stored))
    if trouble is None:
        return []
    if check or (stored is not None and not accept_breaking):
        return [f"{path}: {trouble}"]
    _write(root / path, _json(example(golden.model)))
    return []


def unreadable(model: type[BaseModel], payload: dict[str, Any]) -> str | None:
    """Why a payload stored earlier is not read in full by today's model; None when it is."""
    try:
        read: dict[str, Any] = model.model_validate(payload).model_dump(mode="json")
    except ValidationError as error:
        return f"cannot be read any more: {error.errors()[0]['msg']} at {error.errors()[0]['loc']}"
    lost = _lost(payload, read)
    return f"these are not read any more: {', '.join(lost)}" if lost else None


def _lost(stored: Any, read: Any, path: str = "") -> list[str]:
    if isinstance(stored, dict) and isinstance(read, dict):
        return [
            lost
            for key, value in stored.items()
            for lost in (_lost(value, read[key], f"{path}/{key}") if key in read else [f"{path}/{key}"])
        ]
    if isinstance(stored, list) and isinstance(read, list) and len(stored) == len(read):
        pairs = enumerate(zip(stored, read, strict=True))
        return [lost for index, (one, other) in pairs for lost in _lost(one, other, f"{path}/{index}")]
    return [] if stored == read else [path]


def _strangers(root: Path) -> Iterator[Path]:
    known = {f"{golden.name}.{kind}.json" for golden in goldens() for kind in ("schema", "payload")}
    yield from (path for path in sorted((root / GOLDEN).glob("*.json")) if path.name not in known)


def _load(entry: str) -> Callable[[], dict[str, Any]]:
    module, _, attribute = entry.partition(":")
    loaded: Callable[[], dict[str, Any]] = getattr(import_module(module), attribute)
    return loaded


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True) + "\n"


def _yaml(document: dict[str, Any]) -> str:
    text: str = yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120)
    return "# Generated by `placet generate` from placet.contracts; do not edit.\n" + text


class _Plain(yaml.SafeDumper):  # type: ignore[misc]  # the library has no types
    """Without YAML anchors: the same answer may be meant twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """`python -m placet.cli.generate [--check] [--accept-breaking]`; exit code 1 when something is wrong."""
    found = generate(Path.cwd(), "--check" in arguments, accept_breaking="--accept-breaking" in arguments)
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
