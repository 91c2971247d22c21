"""Inputs with one fact missing or spoilt: both engines must answer the same, and never more than to the whole input."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from placet.policy.cases import Case, DecideRow, ProposalRow, load_cases
from placet.policy.engine import PolicyEngine
from placet.policy.port import ADMIN, APPROVAL, AUTHZ, KNOWLEDGE, ROUTES, Answered

POLICIES = Path(__file__).resolve().parents[2] / "policies"
CASES = {case.name: case for case in load_cases(POLICIES / "cases")}

DECISIONS = (
    "decisions: a search by an employee runs",
    "decisions: a small refund waits for one finance approver",
    "decisions: cancelling a small order needs one",
    "decisions: a publish proposal is made at once over its own entry",
    "commit: an approved refund runs",
    "commit: a publication its requester confirmed runs",
    "budgets: a write that rests on untrusted text waits for its requester",
)
PROPOSALS = (
    "approvals: a finance approver may approve a refund",
    "approvals: another knowledge admin may approve a publication",
    "approvals: the requester may approve the own ticket",
)
REMOVED = object()
SPOILT: tuple[Any, ...] = (REMOVED, None, True, -1, "x", [], {"a": 1})

RANK = {"deny": 0, "require_approval": 1, "allow": 2}


def places(value: Any, prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*prefix, key)
        yield from places(inner, (*prefix, key))


def spoil(document: dict[str, Any], place: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(document)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    if value is REMOVED:
        del holder[place[-1]]
    else:
        holder[place[-1]] = value
    return changed


def decision_document(case: Case) -> dict[str, Any]:
    assert isinstance(case.row, DecideRow)
    return case.row.request(case.world).model_dump(mode="json")


def proposal_document(case: Case) -> dict[str, Any]:
    assert isinstance(case.row, ProposalRow)
    return {
        "subject": case.world.subject(case.row.who, case.row.now).model_dump(mode="json"),
        "action": {"name": case.row.action},
        "resource": {"type": "proposal", "id": "p-1", "properties": case.row.proposal.model_dump(mode="json")},
    }


def other_documents() -> list[tuple[str, dict[str, Any]]]:
    dave = next(iter(CASES.values())).world.subject("dave", {}).model_dump(mode="json")
    effect = {"type": "effect", "id": "k", "properties": {"tenant": "acme", "requester": "alice"}}
    context = {"route": "business_action", "channel": "chat", "agent": "assistant", "manifest": "assistant"}
    return [
        (KNOWLEDGE, {"subject": dave}),
        (ADMIN, {"subject": dave, "action": {"name": "effects.settle"}, "resource": effect}),
        (ROUTES, {"subject": dave, "context": context}),
    ]


DOCUMENTS = [
    *((AUTHZ, decision_document(CASES[name])) for name in DECISIONS),
    *((APPROVAL, proposal_document(CASES[name])) for name in PROPOSALS),
    *other_documents(),
]


@pytest.mark.spec("T3", "A4", "K2")
@pytest.mark.parametrize(("entrypoint", "document"), DOCUMENTS, ids=[f"{i}-{d[0]}" for i, d in enumerate(DOCUMENTS)])
async def test_spoilt_input_on_both_engines_gets_the_same_answer(
    both: tuple[PolicyEngine, PolicyEngine], entrypoint: str, document: dict[str, Any]
) -> None:
    for place in places(document):
        for value in SPOILT:
            changed = spoil(document, place, value)
            embedded, opa = await asyncio.gather(*(engine.evaluate(entrypoint, changed) for engine in both))
            assert embedded == opa, (place, "removed" if value is REMOVED else value)
            assert isinstance(opa, Answered)


# What these decisions may well do without: it has no say in them, or is one of a list that is shorter without it.
OPTIONAL = {
    ("action", "properties", "domain"),
    ("context", "args", "reason"),
    ("context", "args", "order_id"),
    ("context", "influence", "authors"),
    ("context", "influence", "untrusted_documents", 0),
}


@pytest.mark.spec("T3")
@pytest.mark.parametrize("name", DECISIONS)
async def test_missing_fact_never_gets_a_better_answer(policy: PolicyEngine, name: str) -> None:
    document = decision_document(CASES[name])
    whole = await policy.evaluate(AUTHZ, document)
    assert isinstance(whole, Answered)
    for place in places(document):
        if place in OPTIONAL:
            continue
        answer = await policy.evaluate(AUTHZ, spoil(document, place, REMOVED))
        assert isinstance(answer, Answered)
        assert RANK[answer.value["effect"]] <= RANK[whole.value["effect"]], place
