"""`placet proposals decide`: the packet is shown, the challenge is put to the person, nothing is answered for them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
import typer

from placet.cli import deciding
from placet.cli.deciding import Wish, settle
from placet.client import InvalidError, PlacetClient

PROPOSAL: dict[str, Any] = {
    "proposal_id": "p-1",
    "status": "pending",
    "finish_reason": None,
    "tool": "refund_payment",
    "title": "Refund a payment",
    "summary": "Refund 299.00 CNY of order A1001",
    "arguments": {"order_id": "A1001", "amount": 299, "reason": "[bold]broken[/bold]"},
    "digest": "sha256:d1",
    "intent": "Please refund",
    "lineage": ["doc-1:v1:chunk-01"],
    "authors": [],
    "resource": {"type": "order", "id": "A1001", "version": "7"},
    "permissions": [],
    "blast_radius": ["customer C1001"],
    "preview": [{"field": "refunded", "before": "0.00", "after": "299.00"}],
    "rollback": {"tool": None, "arguments": {}, "rehearsed": False},
    "risk": "critical_funds",
    "policy_revision": "sha256:p1",
    "idempotency_key": "k",
    "requester": "alice",
    "run_id": "run-1",
    "request_id": "req-1",
    "approvals": {"needed": 1, "given": []},
    "challenge": {"resources": ["A1001", "C1001"], "retype": "amount"},
    "created_at": "2026-11-30T12:00:00Z",
    "expires_at": "2026-11-30T12:15:00Z",
    "outcome": None,
}


class Gateway:
    """Holds one proposal and keeps the decisions it gets."""

    def __init__(self, **changes: Any) -> None:
        self.proposal = PROPOSAL | changes
        self.decisions: list[dict[str, Any]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=self.proposal)
        self.decisions.append(json.loads(request.content))
        decided = {"proposal_id": "p-1", "status": "approved", "finish_reason": None, "digest": "sha256:d1"}
        return httpx.Response(200, json=decided)

    def client(self) -> PlacetClient:
        return PlacetClient("http://gateway", "t", transport=httpx.MockTransport(self))


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """At a terminal: what they are asked, and what they answer."""
    said: dict[str, Any] = {"asked": [], "confirms": True, "types": "299"}

    def confirm(question: str) -> bool:
        said["asked"].append(question)
        return bool(said["confirms"])

    def prompt(question: str) -> str:
        said["asked"].append(question)
        return str(said["types"])

    monkeypatch.setattr(deciding.typer, "confirm", confirm)
    monkeypatch.setattr(deciding.typer, "prompt", prompt)
    monkeypatch.setattr(deciding.sys.stdin, "isatty", lambda: True, raising=False)
    return said


@pytest.mark.spec("A5")
async def test_approve_at_a_terminal_puts_every_part_of_the_challenge_to_the_person(person: dict[str, Any]) -> None:
    gateway = Gateway()
    await settle(gateway.client(), "p-1", Wish("approve"), as_json=False)
    assert person["asked"] == [
        "Do you acknowledge that A1001 is touched?",
        "Do you acknowledge that C1001 is touched?",
        "Have you read the blast radius?",
        "Have you read the rollback plan?",
        "Retype amount",
    ]
    assert gateway.decisions == [
        {
            "decision": "approve",
            "digest": "sha256:d1",
            "acknowledgements": {
                "resources": ["A1001", "C1001"],
                "blast_radius": True,
                "rollback": True,
                "retype": "299",
            },
        }
    ]


@pytest.mark.spec("A5")
async def test_approve_by_a_person_who_denies_sends_just_that(person: dict[str, Any]) -> None:
    person["confirms"], person["types"] = False, "1"
    gateway = Gateway()
    await settle(gateway.client(), "p-1", Wish("approve"), as_json=False)
    assert gateway.decisions[0]["acknowledgements"] == {
        "resources": [],
        "blast_radius": False,
        "rollback": False,
        "retype": "1",
    }


async def test_approve_with_answers_on_the_command_line_asks_nothing(person: dict[str, Any]) -> None:
    gateway = Gateway()
    wish = Wish("approve", acknowledge=("A1001", "C1001"), retype="299")
    await settle(gateway.client(), "p-1", wish, as_json=True)
    assert person["asked"] == []
    assert gateway.decisions[0]["acknowledgements"]["resources"] == ["A1001", "C1001"]
    assert gateway.decisions[0]["acknowledgements"]["retype"] == "299"


async def test_approve_without_terminal_or_answers_sends_nothing(
    person: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding.sys.stdin, "isatty", lambda: False, raising=False)
    gateway = Gateway()
    with pytest.raises(typer.Exit):
        await settle(gateway.client(), "p-1", Wish("approve"), as_json=False)
    assert gateway.decisions == []


async def test_decision_left_out_is_asked_for_once_the_packet_was_shown(
    person: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    person["types"] = "reject"
    gateway = Gateway()
    await settle(gateway.client(), "p-1", Wish(None), as_json=False)
    assert person["asked"] == ["What do you decide (approve, edit, reject, respond)?"]
    assert gateway.decisions == [{"decision": "reject", "digest": "sha256:d1"}]
    assert "reject: p-1 is approved" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("types", "terminal", "as_json"),
    [("yes", True, False), ("", True, False), ("approve", False, False), ("approve", True, True)],
    ids=["no_such_decision", "just_return", "nobody_to_ask", "packet_not_shown"],
)
async def test_decision_left_out_and_not_given_sends_nothing(
    person: dict[str, Any], monkeypatch: pytest.MonkeyPatch, types: str, terminal: bool, as_json: bool
) -> None:
    person["types"] = types
    monkeypatch.setattr(deciding.sys.stdin, "isatty", lambda: terminal, raising=False)
    gateway = Gateway()
    with pytest.raises(typer.Exit) as ended:
        await settle(gateway.client(), "p-1", Wish(None), as_json=as_json)
    assert (ended.value.exit_code, gateway.decisions) == (2, [])


@pytest.mark.parametrize("wish", [Wish("reject", message="no"), Wish("respond", message="use another")])
async def test_decision_that_executes_nothing_asks_no_challenge(person: dict[str, Any], wish: Wish) -> None:
    gateway = Gateway()
    await settle(gateway.client(), "p-1", wish, as_json=False)
    assert person["asked"] == []
    assert gateway.decisions == [{"decision": wish.decision, "digest": "sha256:d1", "message": wish.message}]


async def test_edit_sends_the_new_arguments(person: dict[str, Any]) -> None:
    gateway = Gateway(challenge=None)
    wish = Wish("edit", args='{"order_id": "A1001", "amount": 100, "reason": "part"}')
    await settle(gateway.client(), "p-1", wish, as_json=False)
    assert gateway.decisions[0]["args"] == {"order_id": "A1001", "amount": 100, "reason": "part"}


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
async def test_edit_with_arguments_that_are_no_object_is_refused_before_anything_is_sent(text: str) -> None:
    gateway = Gateway()
    with pytest.raises(typer.Exit):
        await settle(gateway.client(), "p-1", Wish("edit", args=text), as_json=False)
    assert gateway.decisions == []


async def test_decision_on_a_digest_that_has_moved_is_not_sent(person: dict[str, Any]) -> None:
    gateway = Gateway()
    with pytest.raises(typer.Exit):
        await settle(gateway.client(), "p-1", Wish("approve", digest="sha256:older"), as_json=False)
    assert gateway.decisions == []


async def test_packet_is_shown_before_the_decision_with_texts_as_they_are(
    person: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    await settle(Gateway().client(), "p-1", Wish("approve"), as_json=False)
    shown = capsys.readouterr().out
    for part in ("Refund 299.00 CNY of order A1001", "customer C1001", "sha256:d1", "[bold]broken[/bold]", "299.00"):
        assert part in shown
    assert shown.index("sha256:d1") < shown.index("p-1 is approved")


async def test_refusal_of_the_decision_reaches_the_caller(person: dict[str, Any]) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json=PROPOSAL)
        return httpx.Response(422, json={"code": "challenge_failed", "detail": "not the amount"})

    client = PlacetClient("http://gateway", "t", transport=httpx.MockTransport(refuse))
    with pytest.raises(InvalidError) as caught:
        await settle(client, "p-1", Wish("approve"), as_json=False)
    assert caught.value.code == "challenge_failed"
