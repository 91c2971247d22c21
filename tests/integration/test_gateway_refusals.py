"""Request ids, and what services refuse, on the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from gateway_rig import House, is_problem, open_house


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@pytest.mark.spec("L1")
async def test_request_id_given_is_echoed_and_reaches_the_service(house: House) -> None:
    answer = await house.as_().get("/api/documents", headers={"X-Request-ID": "req.from-outside_1"})
    assert answer.headers["x-request-id"] == "req.from-outside_1"
    asked = house.executor.last("list-documents")
    assert asked.request_id == asked.grant.request_id == "req.from-outside_1"


@pytest.mark.parametrize("offered", [None, "", "a b", "x" * 200, "é"])
async def test_request_id_absent_or_harmful_is_made(house: House, offered: str | None) -> None:
    headers = {} if offered is None else {b"X-Request-ID": offered.encode("latin-1")}
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
