"""One governed call, in every way it can end: the rows of the error table (T3, T4)."""

from __future__ import annotations

import pytest

from placet.contracts.errors import ErrorCode
from placet.contracts.execution import ListTools, ToolList
from placet.contracts.policy import DecisionInput
from placet.contracts.tools import Route
from placet.identity.grants import Purpose
from placet.messaging.rpc import RpcClient
from placet.observability.context import new_id
from tests.integration.call_steps import refused
from tests.integration.governance_rig import GovernanceRig


@pytest.mark.spec("T1", "W2")
async def test_read_within_the_rights_of_the_caller_is_answered_with_its_decision(governance: GovernanceRig) -> None:
    reply = await governance.execute("alice", "query_business_data", {"entity": "orders", "order_id": "A1008"})
    assert (reply.status, reply.decision.effect) == ("ok", "allow")
    assert reply.decision.policy_revision.startswith("sha256:")
    assert [item["order_id"] for item in reply.result["items"]] == ["A1008"]


@pytest.mark.spec("G3")
async def test_personal_fields_are_masked_where_policy_says_so(governance: GovernanceRig) -> None:
    reply = await governance.execute("alice", "query_business_data", {"entity": "customers"})
    assert reply.result["items"]
    assert {item["email"] for item in reply.result["items"]} == {"•••"}


@pytest.mark.spec("T2", "T4")
@pytest.mark.parametrize(
    ("tool", "route"),
    [
        ("refund_payment", Route.FIXED_RAG),
        ("refund_payment", Route.BUSINESS_QUERY),
        ("create_publish_proposal", Route.BUSINESS_ACTION),
        ("apply_publish_decision", Route.VERSION_TOOL),
        ("no_such_tool", Route.BUSINESS_ACTION),
        ("search_knowledge", Route.DIRECT),
    ],
)
async def test_tool_outside_the_route_is_not_allowed_and_audited(
    governance: GovernanceRig, tool: str, route: Route
) -> None:
    run_id = new_id("run")
    error = await refused(governance, "alice", tool, {}, route=route, run_id=run_id)
    assert error.code is ErrorCode.TOOL_NOT_ALLOWED
    page = await governance.audit(run_id=run_id)
    assert [(entry.type, entry.record.code) for entry in page.items] == [("access-denied", "tool_not_allowed")]


@pytest.mark.spec("T2")
async def test_run_grant_on_an_http_route_is_not_allowed(governance: GovernanceRig) -> None:
    for route in (Route.HTTP, Route.HTTP_PUBLISH):
        error = await refused(
            governance, "carol", "create_publish_proposal", {"document_id": "x"}, route=route, run_id=new_id("run")
        )
        assert error.code is ErrorCode.TOOL_NOT_ALLOWED


@pytest.mark.spec("I1", "R4", "T4")
async def test_dismissed_person_is_denied_everything(governance: GovernanceRig) -> None:
    for tool, args in (("search_knowledge", {"query": "上海"}), ("query_business_data", {"entity": "orders"})):
        assert (await refused(governance, "mike", tool, args)).code is ErrorCode.PERMISSION_DENIED
    assert (await refused(governance, "nobody-known", "search_knowledge", {"query": "x"})).code is (
        ErrorCode.PERMISSION_DENIED
    )


@pytest.mark.spec("T3", "I2")
async def test_identity_in_arguments_is_stripped_and_raised_as_a_security_event(governance: GovernanceRig) -> None:
    run_id = new_id("run")
    args = {"entity": "orders", "order_id": "A1008", "tenant_id": "globex", "roles": ["admin"], "actor": "dave"}
    reply = await governance.execute("alice", "query_business_data", args, route=Route.BUSINESS_QUERY, run_id=run_id)
    assert reply.stripped == ("actor", "roles", "tenant_id")
    assert {item["tenant"] for item in reply.result["items"] if "tenant" in item} <= {"acme"}
    events = [entry for entry in (await governance.audit(run_id=run_id)).items if entry.type == "security-event"]
    assert [event.record.action for event in events] == ["identity_in_arguments"]


@pytest.mark.spec("I2")
@pytest.mark.parametrize("forge", ["", "x.y.z", "expired", "other tenant", "tampered"])
async def test_forged_expired_or_foreign_grant_is_unauthenticated(governance: GovernanceRig, forge: str) -> None:
    token = governance.grant("alice")
    if forge == "expired":
        token = governance.mint.mint(
            tenant="acme",
            actor="alice",
            purpose=Purpose.REQUEST,
            request_id="req-1",
            lifetime_s=-3600,
        )
    elif forge == "other tenant":
        token = governance.grant("alice", tenant="globex")
    elif forge == "tampered":
        token = token[:-8] + "AAAAAAAA"
    else:
        token = forge
    error = await refused(governance, "alice", "query_business_data", {"entity": "orders"}, grant=token or "-")
    assert error.code is ErrorCode.UNAUTHENTICATED


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    "args",
    [{}, {"entity": "secrets"}, {"entity": "orders", "surprise": 1}, {"entity": ["orders"]}, {"entity": None}],
)
async def test_arguments_outside_the_schema_are_invalid(governance: GovernanceRig, args: dict[str, object]) -> None:
    error = await refused(governance, "alice", "query_business_data", args)
    assert error.code is ErrorCode.INVALID_ARGUMENTS
    assert "secrets" not in str(error.details)


@pytest.mark.spec("T4", "I3", "G7")
async def test_absent_and_foreign_orders_look_the_same(governance: GovernanceRig) -> None:
    answers = []
    for order in ("A3001", "A9999", "no such order"):
        args = {"order_id": order, "amount": 1, "reason": "x"}
        error = await refused(governance, "alice", "refund_payment", args)
        answers.append((error.code, error.message, error.details))
    assert answers[0][0] is ErrorCode.NOT_FOUND
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    "code", ["rate_limited", "dependency_unavailable", "conflict", "limit_reached", "not_found", "outcome_unknown"]
)
async def test_codes_of_a_tool_reach_the_caller(governance: GovernanceRig, code: str) -> None:
    error = await refused(governance, "alice", "odd_read", {"mode": code})
    assert error.code is ErrorCode(code)


@pytest.mark.spec("T4")
async def test_slow_tool_ends_as_timeout_and_a_crash_tells_nothing(governance: GovernanceRig) -> None:
    assert (await refused(governance, "alice", "odd_read", {"mode": "slow"})).code is ErrorCode.TIMEOUT
    crashed = await refused(governance, "alice", "odd_read", {"mode": "crash"})
    assert crashed.code is ErrorCode.INTERNAL
    assert "secret" not in crashed.message


@pytest.mark.spec("G2", "T4", "U3")
async def test_thirteenth_call_of_a_run_reaches_its_limit(governance: GovernanceRig) -> None:
    run_id = new_id("run")
    call = ("alice", "query_business_data", {"entity": "orders", "order_id": "A1008"})
    for _ in range(12):
        await governance.execute(*call, route=Route.BUSINESS_QUERY, run_id=run_id)
    error = await refused(governance, *call, route=Route.BUSINESS_QUERY, run_id=run_id)
    assert error.code is ErrorCode.LIMIT_REACHED


@pytest.mark.spec("T2", "G10")
async def test_list_tools_offers_the_intersection_only(governance: GovernanceRig) -> None:
    async def offered(person: str, route: Route, run_id: str | None = None) -> set[str]:
        command = ListTools(grant=governance.grant(person, run_id=run_id), route=route)
        bus = await governance.nats.bus("agent" if run_id else "gateway")
        reply = await RpcClient(bus).call("tool-executor", "list-tools", command, ToolList, tenant="acme")
        return {tool.name for tool in reply.tools}

    assert await offered("alice", Route.FIXED_RAG, "run-1") == {"search_knowledge", "get_document_source"}
    assert await offered("alice", Route.DIRECT, "run-1") == set()
    assert "read_document_version" not in await offered("alice", Route.VERSION_TOOL, "run-1")
    assert "read_document_version" in await offered("carol", Route.VERSION_TOOL, "run-1")
    assert "refund_payment" not in await offered("bob", Route.BUSINESS_ACTION, "run-1")
    assert await offered("mike", Route.HTTP) == set()


@pytest.mark.spec("I4")
async def test_other_tenant_with_the_same_ids_sees_only_its_own(governance: GovernanceRig) -> None:
    ours = await governance.execute("alice", "query_business_data", {"entity": "orders", "order_id": "A1001"})
    theirs = await governance.execute(
        "alice", "query_business_data", {"entity": "orders", "order_id": "A1001"}, tenant="globex"
    )
    assert ours.result["items"] != theirs.result["items"]


@pytest.mark.spec("L1")
async def test_record_of_a_call_replays_to_the_same_decision(governance: GovernanceRig) -> None:
    run_id, request_id = new_id("run"), new_id("req")
    args = {"entity": "orders", "order_id": "A1008"}
    await governance.execute(
        "alice", "query_business_data", args, route=Route.BUSINESS_QUERY, run_id=run_id, request_id=request_id
    )
    [entry] = (await governance.audit(run_id=run_id)).items
    record = entry.record
    assert (record.actor, record.tool, record.arguments, record.request_id) == (
        "alice",
        "query_business_data",
        args,
        request_id,
    )
    again = await governance.executor.policy.decide(DecisionInput.model_validate(record.decision_input))
    assert again.model_dump(mode="json") == record.decision
    assert again.policy_revision == record.policy_revision
