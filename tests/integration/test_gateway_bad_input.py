"""Bad input: every refusal is a problem document, and nothing reaches a service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from gateway_rig import House, open_house

from placet.messaging.reading import EventReader
from services.gateway.handlers.edge.body_limit import MAX_BODY_BYTES

JSON = {"Content-Type": "application/json"}
DIGEST = "sha256:" + "d" * 64


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    assert (answer.status_code, body["status"], body["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert {"type", "title", "status", "detail", "code"} <= set(body)
    assert answer.headers["x-request-id"]
    return body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b"null",
        b'"text"',
        b'{"question": NaN}',
        b'{"question": "\\ud800"}',
        b'{"question": "a\\u0000b"}',
        b'{"question": "\xff"}',
        b'{"question": "x", "x": ' + b"[" * 2000 + b"]" * 2000 + b"}",
    ],
)
async def test_body_that_is_no_usable_json_is_422(house: House, body: bytes) -> None:
    answer = await house.as_().post("/api/chat", content=body, headers=JSON)
    is_problem(answer, 422, "invalid_request")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", {}),
        ("/api/chat", {"question": 5}),
        ("/api/chat", {"question": ""}),
        ("/api/chat", {"question": " \n\t "}),
        ("/api/chat", {"question": None}),
        ("/api/chat", {"question": ["x"]}),
        ("/api/chat", {"question": "x", "conversation_id": "a.b"}),
        ("/api/chat", {"question": "x", "conversation_id": "*"}),
        ("/api/chat", {"question": "x", "conversation_id": ""}),
        ("/api/chat", {"question": "x", "tenant_id": "globex"}),
        ("/api/runs", {"question": "x", "roles": ["admin"]}),
        ("/api/tools/echo/calls", {"args": []}),
        ("/api/tools/echo/calls", {"args": "x"}),
        ("/api/tools/echo/calls", {}),
        ("/api/tools/echo/calls", {"args": {}, "actor": "bob"}),
        ("/api/proposals/prop-1/decisions", {"decision": "maybe", "digest": DIGEST}),
        ("/api/proposals/prop-1/decisions", {"decision": "approve"}),
        ("/api/proposals/prop-1/decisions", {"decision": "approve", "digest": 5}),
        ("/api/proposals/prop-1/decisions", {"decision": "approve", "digest": DIGEST, "as": "dave"}),
        (
            "/api/proposals/prop-1/decisions",
            {"decision": "approve", "digest": DIGEST, "acknowledgements": {"blast_radius": "true"}},
        ),
        (
            "/api/proposals/prop-1/decisions",
            {"decision": "approve", "digest": DIGEST, "acknowledgements": {"everything": True}},
        ),
        ("/api/publish-proposals/prop-publish/decisions", {"approved": "yes"}),
        ("/api/publish-proposals/prop-publish/decisions", {"approved": 1}),
        ("/api/publish-proposals/prop-publish/decisions", {}),
        ("/api/effects/eff-1/settle", {"outcome": "perhaps", "note": "x"}),
        ("/api/effects/eff-1/settle", {"outcome": "executed", "note": ""}),
    ],
)
async def test_body_that_does_not_fit_its_schema_is_422_and_asks_nobody(house: House, path: str, body: Any) -> None:
    before = [len(service.asked) for service in (house.executor, house.approval, house.agent)]
    problem = is_problem(await house.as_("dave").post(path, json=body), 422, "invalid_request")
    assert problem["errors"][0]["field"].startswith("body")
    assert [len(service.asked) for service in (house.executor, house.approval, house.agent)] == before


@pytest.mark.parametrize(
    "change",
    [
        {"active": "yes"},
        {"active": 1},
        {"clearance": "5"},
        {"clearance": True},
        {"clearance": 11},
        {"roles": "admin"},
        {"roles": [""]},
        {"id": "mallory"},
        {"tenant": "globex"},
    ],
)
async def test_person_with_a_wrong_value_is_422_and_changes_nothing(house: House, change: dict[str, Any]) -> None:
    body = {"active": True, "roles": [], "teams": [], "clearance": 0} | change
    answer = await house.as_("directory_admin").put("/api/directory/users/alice", json=body)
    is_problem(answer, 422, "invalid_request")
    assert house.executor.count("put-person") == 0


@pytest.mark.parametrize(
    "path",
    [
        "/api/search",
        "/api/search?q=",
        "/api/search?q=%00",
        "/api/search?q=x&k=0",
        "/api/search?q=x&k=many",
        "/api/documents?limit=0",
        "/api/documents?limit=100000",
        "/api/documents/doc-1/source?version=0",
        "/api/documents/doc-1/source?version=last",
        "/api/proposals?status=sleeping",
        "/api/audit/events?after=-1",
        "/api/audit/events?after=99999999999999999999",
    ],
)
async def test_query_parameter_that_does_not_fit_is_422(house: House, path: str) -> None:
    is_problem(await house.as_("auditor").get(path), 422, "invalid_request")


async def test_body_sent_without_json_content_type_is_422(house: House) -> None:
    answer = await house.as_().post("/api/chat", data={"question": "x"})
    is_problem(answer, 422, "invalid_request")


async def test_question_over_its_limit_is_422_and_at_its_limit_is_taken(house: House) -> None:
    client = house.as_()
    is_problem(await client.post("/api/runs", json={"question": "answer " + "x" * 20_000}), 422, "invalid_request")
    taken = await client.post("/api/runs", json={"question": "answer " + "好" * (20_000 - 7)})
    assert taken.status_code == 202


async def test_question_of_one_megabyte_is_413(house: House) -> None:
    answer = await house.as_().post("/api/chat", json={"question": "x" * 1_000_000})
    is_problem(answer, 413, "payload_too_large")


async def test_body_without_announced_length_is_counted_while_it_arrives(house: House) -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(4000):
            sent += 16_384
            yield b" " * 16_384

    client = house.as_()
    try:
        answer = await client.post("/api/chat", content=endless(), headers=JSON)
    except httpx.WriteError:
        pytest.fail("the answer was lost")
    is_problem(answer, 413, "payload_too_large")


@pytest.mark.parametrize(("size", "status"), [(MAX_BODY_BYTES, 422), (MAX_BODY_BYTES + 1, 413)])
async def test_body_limit_is_exact(house: House, size: int, status: int) -> None:
    answer = await house.as_().post("/api/chat", content=b" " * size, headers=JSON)
    assert answer.status_code == status


async def test_validation_problem_names_fields_and_never_their_values(house: House) -> None:
    answer = await house.as_().post("/api/chat", json={"question": {"secret": "hunter2"}, "x" * 5000: 1})
    problem = is_problem(answer, 422, "invalid_request")
    assert "hunter2" not in answer.text
    assert {"field": "body.question", "problem": "Input should be a valid string"} in problem["errors"]
    assert len(answer.content) < 2000


NOT_THERE = [
    "/api/runs/run-absent",
    "/api/runs/run-absent/events",
    "/api/runs/a.b",
    "/api/runs/*",
    "/api/runs/%3E",
    "/api/runs/" + quote("运行"),
    "/api/runs/" + "x" * 129,
    "/api/documents/doc-hidden",
    "/api/documents/doc-hidden/source",
    "/api/proposals/prop-absent",
    "/api/proposals/prop-absent/events",
    "/api/proposals/..%2F..%2Fetc",
    "/api/conversations/none/memory",
    "/api/directory/users/alice",
    "/api/directory/users/" + quote("a b"),
    "/api/no-such-route",
    "/api/runs/",
    "/api/runs/run-1/",
    "/nothing",
]


@pytest.mark.spec("I3")
async def test_not_found_body_is_the_same_bytes_for_everything_absent_or_invisible(house: House) -> None:
    client = house.as_("bob")
    run = (await house.as_("alice").post("/api/runs", json={"question": "hold"})).json()["run_id"]
    others = (f"/api/runs/{run}", f"/api/runs/{run}/events", "/api/proposals/prop-1")
    bobs_view = [await client.get(path) for path in (*NOT_THERE, *others)]
    bobs_view.append(await client.post(f"/api/runs/{run}/cancel"))
    bobs_view.append(await house.as_("alice", "globex").get(f"/api/runs/{run}"))
    assert {answer.status_code for answer in bobs_view} == {404}
    assert len({answer.content for answer in bobs_view}) == 1
    is_problem(bobs_view[0], 404, "not_found")
    assert {name for answer in bobs_view for name in answer.headers if name not in ("date", "x-request-id")} == {
        "cache-control",
        "content-length",
        "content-type",
        "server",
        "x-content-type-options",
    }


@pytest.mark.spec("I3")
async def test_not_found_run_of_another_person_takes_the_same_work_and_is_audited(house: House) -> None:
    run = (await house.as_("alice").post("/api/runs", json={"question": "hold"})).json()["run_id"]
    await asyncio.sleep(0.2)
    for path in (run, "run-nowhere"):
        await house.as_("bob").get(f"/api/runs/{path}")
    bus = await house.nats.bus("approval")
    reader = EventReader(bus, "AUDIT")
    notes = []
    for entity in (run, "run-nowhere"):
        records = await reader.entity("acme", "audit", entity)
        assert [record.name for record in records] == ["access-denied"]
        data = records[0].envelope.data
        assert (data["actor"], data["service"], data["action"]) == ("bob", "gateway", "run.read")
        notes.append(data["note"])
    assert notes == ["another person's run", "no such run"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/api/chat"), ("POST", "/api/documents"), ("PUT", "/api/runs"), ("GET", "/api/chat")],
)
async def test_method_that_is_not_offered_is_a_405_problem(house: House, method: str, path: str) -> None:
    answer = await house.as_().request(method, path, json={})
    is_problem(answer, 405, "invalid_request")
    assert answer.headers["allow"]


@pytest.mark.spec("L1")
async def test_request_id_given_is_echoed_and_reaches_the_service(house: House) -> None:
    answer = await house.as_().get("/api/documents", headers={"X-Request-ID": "req.from-outside_1"})
    assert answer.headers["x-request-id"] == "req.from-outside_1"
    asked = house.executor.last("list-documents")
    assert asked.request_id == asked.grant.request_id == "req.from-outside_1"


@pytest.mark.parametrize("offered", [None, "", "a b", "x" * 200, "é"])
async def test_request_id_absent_or_harmful_is_made(house: House, offered: str | None) -> None:
    headers = {} if offered is None else {"X-Request-ID": offered.encode("latin-1")}
    first = await house.as_().get("/api/documents", headers=headers)
    made = first.headers["x-request-id"]
    assert made.startswith("req-")
    assert made != offered
    assert house.executor.last("list-documents").request_id == made


async def test_request_id_is_in_the_header_of_problems_and_in_no_body(house: House) -> None:
    answer = await house.as_().get("/api/runs/run-absent", headers={"X-Request-ID": "req-visible"})
    assert answer.headers["x-request-id"] == "req-visible"
    assert "req-visible" not in answer.text


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("tool", "status", "code"),
    [
        ("no_such_tool", 403, "tool_not_allowed"),
        ("create_publish_proposal", 403, "tool_not_allowed"),
        ("x" * 300, 403, "tool_not_allowed"),
        ("busy", 429, "rate_limited"),
        ("policyless", 503, "policy_unavailable"),
        ("picky", 422, "invalid_arguments"),
    ],
)
async def test_tool_call_refused_by_the_executor_is_a_problem_with_its_code(
    house: House, tool: str, status: int, code: str
) -> None:
    problem = is_problem(await house.as_().post(f"/api/tools/{tool}/calls", json={"args": {}}), status, code)
    assert ("errors" in problem) == (tool == "picky")


async def test_service_that_refuses_our_grant_is_our_fault_not_the_callers(house: House) -> None:
    answer = await house.as_().post("/api/tools/foreign_grant/calls", json={"args": {}})
    is_problem(answer, 500, "internal")


@pytest.mark.spec("I2")
async def test_identity_fields_in_tool_arguments_never_become_the_caller(house: House) -> None:
    args = {"user_id": "carol", "tenant_id": "globex", "roles": ["admin"]}
    await house.as_().post("/api/tools/echo/calls", json={"args": args})
    asked = house.executor.last("execute-tool")
    assert (asked.grant.actor, asked.grant.tenant) == ("alice", "acme")
    assert asked.command.args == args
