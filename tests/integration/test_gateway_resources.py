"""Every other resource: what is asked of which service, and what comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from gateway_fake_executor import ORIGINAL
from gateway_rig import House, open_house, publication, refund

from placet.contracts.proposals import ProposalStatus
from placet.contracts.tools import Route
from placet.identity.grants import Purpose
from placet.testkit.builders import DIGEST


@pytest.fixture(scope="module")
async def opened() -> AsyncIterator[House]:
    async with open_house(gateway_publish_wait_s=1.5) as house:
        yield house


@pytest.fixture
async def house(opened: House) -> House:
    """With fresh proposals: decisions of one test are not the next one's."""
    opened.approval.reset(refund(), publication())
    return opened


@pytest.mark.spec("T1")
async def test_tools_list_what_the_caller_may_use_over_http(house: House) -> None:
    body = (await house.as_().get("/api/tools")).json()
    tool = body["items"][0]
    assert body["next"] is None
    assert {"name", "input_schema", "sensitivity", "effect", "risk", "annotations"} <= set(tool)
    assert tool["annotations"]["readOnlyHint"] is True
    assert house.executor.last("list-tools").command.route is Route.HTTP


async def test_tool_call_done_is_200_with_result_and_decision(house: House) -> None:
    answer = await house.as_().post("/api/tools/echo/calls", json={"args": {"n": 1}})
    asked = house.executor.last("execute-tool")
    assert answer.status_code == 200
    assert answer.json() == {
        "call_id": asked.command.call_id,
        "status": "ok",
        "result": {"echo": {"n": 1}},
        "decision": {"effect": "allow", "risk": "low", "policy_revision": "sha256:rev"},
    }
    assert (asked.command.route, asked.grant.purpose, asked.grant.actor) == (Route.HTTP, Purpose.REQUEST, "alice")


async def test_tool_call_that_needs_a_person_is_202_with_the_proposal(house: House) -> None:
    answer = await house.as_().post("/api/tools/refund_payment/calls", json={"args": {"order_id": "A1001"}})
    body = answer.json()
    assert answer.status_code == 202
    assert set(body) == {"call_id", "status", "proposal_id"}
    assert (body["status"], body["proposal_id"]) == ("waiting_for_human", "prop-1")


@pytest.mark.parametrize(("query", "version"), [("", 2), ("?version=1", 1)])
@pytest.mark.spec("K4")
async def test_document_version_is_a_governed_call(house: House, query: str, version: int) -> None:
    answer = await house.as_("carol").get(f"/api/tools/document-versions/doc-1{query}")
    assert answer.json() == {"document_id": "doc-1", "version": version, "status": "published", "content": "x"}
    command = house.executor.last("execute-tool").command
    assert (command.tool, command.route) == ("read_document_version", Route.HTTP)
    assert command.args == ({"document_id": "doc-1"} | ({"version": 1} if query else {}))


@pytest.mark.spec("K2", "K3")
async def test_search_is_a_governed_call_and_answers_the_published_fields_only(house: House) -> None:
    body = (await house.as_().get("/api/search", params={"q": "上海住宿", "k": 3})).json()
    assert set(body["items"][0]) == {
        "chunk_id",
        "document_id",
        "title",
        "version",
        "page",
        "section",
        "snippet",
        "score",
    }
    assert "the whole passage" not in str(body)
    command = house.executor.last("execute-tool").command
    assert (command.tool, command.args) == ("search_knowledge", {"query": "上海住宿", "k": 3})


async def test_documents_list_passes_limit_and_cursor(house: House) -> None:
    body = (await house.as_().get("/api/documents?limit=7&cursor=abc")).json()
    assert (body["items"][0]["document_id"], body["next"]) == ("doc-1", "abc+7")


async def test_document_metadata_is_answered_as_it_is(house: House) -> None:
    body = (await house.as_().get("/api/documents/doc-1")).json()
    assert (body["title"], body["lock_version"], body["status"]) == ("Travel", 3, "published")


@pytest.mark.spec("W10")
async def test_document_source_is_streamed_in_slices_each_authorized(house: House) -> None:
    before = house.executor.count("read-source")
    answer = await house.as_().get("/api/documents/doc-1/source")
    assert answer.content == ORIGINAL
    assert answer.headers["content-length"] == str(len(ORIGINAL))
    assert answer.headers["content-type"] == "text/plain"
    assert answer.headers["content-disposition"] == ("attachment; filename*=UTF-8''%E5%B7%AE%E6%97%85%20%22v2%22.txt")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert house.executor.count("read-source") == before + 3
    # The version was named before the first slice, so that a version published meanwhile is not mixed in.
    assert house.executor.last("read-source").command.version == 2


async def test_document_source_of_a_version_asks_for_that_one(house: House) -> None:
    before = house.executor.count("get-document")
    await house.as_().get("/api/documents/doc-1/source?version=1")
    assert house.executor.last("read-source").command.version == 1
    assert house.executor.count("get-document") == before


async def test_proposals_list_passes_filters_and_cursor(house: House) -> None:
    params: dict[str, str | int] = {"status": "pending", "tool": "refund_payment", "limit": 5, "cursor": "abc"}
    body = (await house.as_("dave").get("/api/proposals", params=params)).json()
    assert ([one["proposal_id"] for one in body["items"]], body["next"]) == (["prop-1"], "more")
    command = house.approval.last("list-proposals").command
    assert (command.status, command.tool, command.limit, command.cursor) == (
        ProposalStatus.PENDING,
        "refund_payment",
        5,
        "abc",
    )


@pytest.mark.spec("A1")
async def test_proposal_is_answered_with_the_whole_packet(house: House) -> None:
    body = (await house.as_("dave").get("/api/proposals/prop-1")).json()
    assert (body["proposal_id"], body["status"], body["digest"]) == ("prop-1", "pending", DIGEST)
    assert body["challenge"] == {"resources": ["A1001"], "retype": "order_id"}
    assert body["approvals"] == {"needed": 1, "given": []}


async def test_proposal_events_are_listed(house: House) -> None:
    body = (await house.as_("dave").get("/api/proposals/prop-1/events")).json()
    assert (body["items"][0]["name"], body["items"][0]["verified"], body["next"]) == ("proposed", True, None)


async def test_effect_is_settled_with_outcome_and_note(house: House) -> None:
    body = {"outcome": "not_executed", "note": "asked the bank"}
    answer = await house.as_("dave").post("/api/effects/eff-123/settle", json=body)
    assert (answer.status_code, answer.json()["state"]) == (200, "not_executed")
    command = house.executor.last("settle-effect").command
    assert (command.key, command.note) == ("eff-123", "asked the bank")


@pytest.mark.spec("I1")
async def test_directory_is_read_and_changed_by_its_admin(house: House) -> None:
    admin = house.as_("directory_admin")
    before = (await admin.get("/api/directory/users/alice")).json()
    assert before["active"] is True
    change = {"active": False, "roles": ["employee"], "teams": [], "clearance": 2}
    answer = await admin.put("/api/directory/users/alice", json=change)
    assert answer.status_code == 200
    assert (await admin.get("/api/directory/users/alice")).json() == before | change
    assert (await house.as_("bob").put("/api/directory/users/alice", json=change)).status_code == 404


@pytest.mark.spec("L1")
async def test_audit_filters_are_passed_on_for_auditors_only(house: House) -> None:
    path = "/api/audit/events?after=5&type=tool-decided&actor=alice&run_id=r&proposal_id=p&request_id=q&limit=9"
    assert (await house.as_("auditor").get(path)).json() == {"items": [], "next": "14"}
    command = house.approval.last("query-audit").command
    assert (command.after, command.type, command.actor, command.run_id, command.proposal_id, command.request_id) == (
        5,
        "tool-decided",
        "alice",
        "r",
        "p",
        "q",
    )
    assert (await house.as_("auditor").get("/api/audit/events?cursor=14&limit=1")).json()["next"] == "15"
    assert (await house.as_("alice").get(path)).status_code == 403


@pytest.mark.spec("M1")
async def test_memory_of_a_conversation_is_its_owners_to_read_and_forget(house: House) -> None:
    house.memory.summaries[("acme", "alice", "conv-1")] = "asked about Shanghai"
    path = "/api/conversations/conv-1/memory"
    assert (await house.as_("bob").get(path)).status_code == 404
    assert (await house.as_("alice").get(path)).json() == {
        "summary": "asked about Shanghai",
        "updated_at": "2026-11-30T12:00:00+00:00",
    }
    deleted = await house.as_("alice").delete(path)
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (await house.as_("alice").get(path)).status_code == 404
