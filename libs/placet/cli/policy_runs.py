"""`placet policy test|explain`: the policies through an engine, with nothing else running."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from placet.cli import places
from placet.cli.output import fail
from placet.contracts.policy import DecisionInput
from placet.policy.bundle import build_bundle
from placet.policy.cases import load_cases
from placet.policy.opa import OpaPolicy
from placet.policy.opa_server import OpaServer
from placet.policy.port import AUTHZ, ENTRY_POINTS, Answered, PolicyDecisionPoint
from placet.policy.rego import RegoPolicy
from placet.policy.select import EngineChoice, EngineMissingError, select_engine


@dataclass(frozen=True, slots=True)
class CasesResult:
    """`failures`: (case, what is different)."""

    engine: str
    revision: str
    total: int
    failures: tuple[tuple[str, str], ...]


async def run_cases(policies: Path | None, choice: EngineChoice, only: str) -> CasesResult:
    directory = policies or places.policy_dir()
    try:
        cases = [case for case in load_cases(directory / "cases") if only in case.name]
    except (OSError, ValueError) as error:
        fail(f"the case tables cannot be read: {error}", 2)
    async with engine(directory, choice) as policy:
        outcomes = [(case.name, await case.run(policy)) for case in cases]
        failures = tuple((name, difference) for name, difference in outcomes if difference is not None)
        return CasesResult(policy.engine, await policy.revision(), len(outcomes), failures)


async def explain(policies: Path | None, choice: EngineChoice, rule: str, text: str) -> dict[str, Any]:
    """The decision as a caller of policy would get it; for other rules than the tool decision, the raw answer."""
    if rule not in ENTRY_POINTS:
        fail(f"no rule {rule}; there are {', '.join(ENTRY_POINTS)}", 2)
    document = _document(text)
    async with engine(policies or places.policy_dir(), choice) as policy:
        if rule == AUTHZ:
            try:
                request = DecisionInput.model_validate(document)
            except ValidationError as error:
                fail(f"not a decision input: {error}", 2)
            return (await policy.decide(request)).model_dump(mode="json")
        answer = await policy.evaluate(rule, document)
    if isinstance(answer, Answered):
        return {**answer.value, "policy_revision": answer.revision}
    return {"answer": None, "reasons": [answer.failure.value], "detail": answer.detail}


def lines(answer: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The answer as rows: what it says first, then why, then what must be kept."""
    obligations = answer.get("obligations") or {}
    for name in ("effect", "allowed", "visible", "code", "risk"):
        if name in answer:
            yield name, str(answer[name])
    yield "reasons", ", ".join(answer.get("reasons", ())) or "none"
    for name, value in obligations.items():
        yield f"obligation {name}", json.dumps(value, ensure_ascii=False)
    shown = {"effect", "allowed", "visible", "code", "risk", "reasons", "obligations"}
    yield from ((name, str(value)) for name, value in answer.items() if name not in shown)


@asynccontextmanager
async def engine(policies: Path, choice: EngineChoice) -> AsyncIterator[PolicyDecisionPoint]:
    """The chosen engine on these files; an OPA of its own, started here and stopped at the end."""
    try:
        chosen = select_engine(choice, places.project_dir() / ".placet")
    except EngineMissingError as error:
        fail(str(error), 2)
    if chosen.binary is None:
        embedded = await RegoPolicy.open(policies)
        try:
            yield embedded
        finally:
            await embedded.close()
        return
    with tempfile.TemporaryDirectory(prefix="placet-policy-") as directory:
        build_bundle(policies, Path(directory))
        server = await OpaServer.start(chosen.binary, Path(directory), log_file=Path(directory) / "opa.log")
        remote = await OpaPolicy.open(server.url)
        try:
            yield remote
        finally:
            await remote.close()
            await server.stop()


def _document(text: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        fail(f"not JSON: {error}", 2)
    if not isinstance(document, dict):
        fail("the input must be a JSON object", 2)
    return document
