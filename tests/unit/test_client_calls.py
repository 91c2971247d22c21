"""The calls as the API documents them: paths, bodies, pages."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from placet.client import PlacetClient
from placet.client.proposals import acknowledge
from placet.contracts.directory import PersonChange
from placet.contracts.proposals import Acknowledgements, ProposalView


class Recorder:
    """Answers every request with the next of its answers, and keeps what was asked."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers.pop(0)
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    def body(self, index: int = 0) -> Any:
        return json.loads(self.requests[index].content)

    def client(self) -> PlacetClient:
        return PlacetClient("http://gateway", "t", transport=httpx.MockTransport(self))


def entry(seq: int) -> dict[str, Any]:
    record = {"service": "agent", "action": "a", "outcome": "ok", "request_id": "req"}
    return {"seq": seq, "type": "run-finished", "time": "2026-11-30T12:00:00Z", "record": record}


def proposal(**changes: Any) -> dict[str, Any]:
    packet: dict[str, Any] = {
        "proposal_id": "p-1",
        "status": "pending",
        "finish_reason": None,
        "tool": "refund_payment",
        "title": "Refund a payment",
        "summary": "Refund 299.00 CNY of order A1001",
        "arguments": {"order_id": "A1001", "amount": 299, "reason": "broken"},
        "digest": "sha256:d1",
        "intent": "Please refund",
        "lineage": [],
        "authors": [],
        "resource": {"type": "order", "id": "A1001", "version": "7"},
        "permissions": [],
        "blast_radius": ["customer C1001"],
        "preview": [],
        "rollback": {"tool": None, "arguments": {}, "rehearsed": False},
        "risk": "critical_funds",
        "policy_revision": "sha256:p1",
        "idempotency_key": "k",
        "requester": "alice",
        "run_id": "run-1",
        "request_id": "req-1",
        "approvals": {"needed": 1, "given": []},
        "challenge": {"resources": ["A1001"], "retype": "amount"},
        "created_at": "2026-11-30T12:00:00Z",
        "expires_at": "2026-11-30T12:15:00Z",
        "outcome": None,
    }
    return packet | changes


async def test_list_over_several_pages_yields_every_item_once() -> None:
    server = Recorder(
        {"items": [entry(3), entry(5)], "next": "5"}, {"items": [entry(9)], "next": "9"}, {"items": [], "next": None}
    )
    async with server.client() as client:
        found = [item.seq async for item in client.audit.events(after=2, run_id="run-1")]
    assert found == [3, 5, 9]
    assert server.asked == [
        "GET /api/audit/events?after=2&run_id=run-1",
        "GET /api/audit/events?after=5&run_id=run-1",
        "GET /api/audit/events?after=9&run_id=run-1",
    ]


async def test_list_from_server_that_repeats_its_cursor_ends() -> None:
    server = Recorder({"items": [entry(3)], "next": "3"}, {"items": [], "next": "3"})
    async with server.client() as client:
        assert [item.seq async for item in client.audit.events()] == [3]


async def test_chat_that_waits_for_a_person_carries_the_proposal() -> None:
    waiting = {
        "run_id": "run-1",
        "conversation_id": "c",
        "status": "waiting_for_human",
        "proposal": {
            "proposal_id": "p-1",
            "tool": "refund_payment",
            "title": "Refund",
            "risk": "critical_funds",
            "expires_at": "2026-11-30T12:15:00Z",
        },
    }
    server = Recorder(httpx.Response(202, json=waiting))
    async with server.client() as client:
        chat = await client.runs.chat("Please refund", "c")
    assert chat.proposal is not None
    assert (chat.status, chat.proposal.proposal_id, chat.answer) == ("waiting_for_human", "p-1", None)
    assert server.body() == {"question": "Please refund", "conversation_id": "c"}


async def test_decision_sends_digest_and_acknowledgements() -> None:
    decided = {"proposal_id": "p-1", "status": "approved", "finish_reason": None, "digest": "sha256:d1"}
    server = Recorder(proposal(), decided)
    async with server.client() as client:
        shown = await client.proposals.get("p-1")
        result = await client.proposals.decide(
            "p-1", "approve", digest=shown.digest, acknowledgements=acknowledge(shown)
        )
    assert result.status == "approved"
    assert server.asked == ["GET /api/proposals/p-1", "POST /api/proposals/p-1/decisions"]
    assert server.body(1) == {
        "decision": "approve",
        "digest": "sha256:d1",
        "acknowledgements": {"resources": ["A1001"], "blast_radius": True, "rollback": True, "retype": "299"},
    }


async def test_decision_without_challenge_sends_no_acknowledgements() -> None:
    server = Recorder({"proposal_id": "p-1", "status": "completed", "finish_reason": "rejected", "digest": "d"})
    async with server.client() as client:
        await client.proposals.decide("p-1", "reject", digest="d", message="no")
    assert server.body() == {"decision": "reject", "digest": "d", "message": "no"}


@pytest.mark.spec("A5")
def test_acknowledge_of_a_challenge_retypes_the_named_argument_as_text() -> None:
    with_challenge = ProposalView.model_validate(proposal())
    assert acknowledge(with_challenge) == Acknowledgements(
        resources=("A1001",), blast_radius=True, rollback=True, retype="299"
    )
    assert acknowledge(ProposalView.model_validate(proposal(challenge=None))) is None


async def test_upload_is_multipart_with_its_fields() -> None:
    draft = {"document_id": "d", "version": 2, "status": "draft", "lock_version": 3}
    server = Recorder(httpx.Response(201, json=draft))
    async with server.client() as client:
        made = await client.documents.upload(
            "rules.md", b"# Rules", knowledge_base_id="kb", title="Rules", media_type="text/markdown", document_id="d"
        )
    assert made.version == 2
    content = server.requests[0].content
    assert server.requests[0].headers["content-type"].startswith("multipart/form-data")
    for part in (
        b'name="knowledge_base_id"',
        b'name="title"',
        b'name="document_id"',
        b'filename="rules.md"',
        b"# Rules",
    ):
        assert part in content


async def test_calls_of_the_other_rooms_use_the_documented_paths() -> None:
    person = {"id": "bob", "tenant": "acme", "active": False, "roles": [], "teams": [], "clearance": 0, "later": 1}
    pending = {"proposal_id": "p", "status": "pending", "document_id": "d", "lock_version": 1}
    done = {"proposal_id": "p", "status": "completed", "finish_reason": "success"}
    server = Recorder(
        {"items": []},
        {"items": []},
        {"call_id": "c", "status": "ok", "result": {}},
        {"items": [], "next": None},
        httpx.Response(200, content=b"bytes"),
        httpx.Response(201, json={**pending, "expires_at": "2026-11-30T12:15:00Z"}),
        done,
        httpx.Response(202),
        person,
        httpx.Response(204),
        {"items": [], "next": None},
    )
    async with server.client() as client:
        await client.tools.list()
        await client.tools.search("上海", k=3)
        await client.tools.call("t", {"a": 1})
        assert [item async for item in client.documents.list()] == []
        assert await client.documents.source("d", 2) == b"bytes"
        await client.documents.propose_publishing("d")
        await client.documents.decide_publishing("p", approved=True)
        await client.runs.cancel("r")
        changed = await client.directory.put("bob", PersonChange(active=False, roles=(), teams=(), clearance=0))
        await client.forget_conversation("c")
        assert [item async for item in client.proposals.list(status="pending")] == []
    assert changed.active is False
    assert server.asked == [
        "GET /api/tools",
        "GET /api/search?q=%E4%B8%8A%E6%B5%B7&k=3",
        "POST /api/tools/t/calls",
        "GET /api/documents",
        "GET /api/documents/d/source?version=2",
        "POST /api/documents/d/publish-proposals",
        "POST /api/publish-proposals/p/decisions",
        "POST /api/runs/r/cancel",
        "PUT /api/directory/users/bob",
        "DELETE /api/conversations/c/memory",
        "GET /api/proposals?status=pending",
    ]
    assert server.body(6) == {"approved": True}
