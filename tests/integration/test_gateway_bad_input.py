"""Bad input: every refusal is a problem document, and nothing reaches a service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_rig import House, is_problem, open_house

from services.gateway.handlers.edge.body_limit import MAX_BODY_BYTES

JSON = {"Content-Type": "application/json"}
DIGEST = "sha256:" + "d" * 64


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


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


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/api/chat"), ("PUT", "/api/documents"), ("PUT", "/api/runs"), ("GET", "/api/chat")],
)
async def test_method_that_is_not_offered_is_a_405_problem(house: House, method: str, path: str) -> None:
    answer = await house.as_().request(method, path, json={})
    is_problem(answer, 405, "invalid_request")
    assert answer.headers["allow"]
