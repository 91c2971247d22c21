"""`/api/tools`: what the caller may use, and governed calls outside a chat."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.execution import ExecuteTool, ListTools, ToolList, ToolReply
from placet.contracts.tools import Route
from services.gateway.handlers.answers import StrictRoute, documented, json_answer, page
from services.gateway.handlers.caller import Caller, CallerDep, Id
from services.gateway.handlers.models import DocumentText, ToolArguments, ToolDone, Tools, ToolWaiting

router = APIRouter(route_class=StrictRoute, tags=["tools"])

# Longer than any tool may take: a tool's own limit answers first, and says what became of the call.
CALL_TIMEOUT_S = 60.0
_MAX_NAME_CHARS = 200
NOT_THEIRS = (ErrorCode.TOOL_NOT_ALLOWED, ErrorCode.PERMISSION_DENIED)
"""What a tool refuses whom it is not for; told as absence where the call looks at a resource."""


async def governed_call(
    caller: Caller, tool: str, args: dict[str, Any], *, route: Route = Route.HTTP, intent: str = ""
) -> ToolReply:
    """One call through the executor's door, in the caller's name. Raises `PlacetError` with the executor's code."""
    if len(tool) > _MAX_NAME_CHARS:
        raise PlacetError(ErrorCode.TOOL_NOT_ALLOWED, "This tool is not offered here.")
    command = ExecuteTool(
        grant=caller.grant(),
        call_id=caller.new_id("call"),
        tool=tool,
        args=args,
        route=route,
        intent=intent or f"A direct call of {tool}.",
    )
    return await caller.ask("tool-executor", "execute-tool", command, ToolReply, timeout_s=CALL_TIMEOUT_S)


def waiting(reply: ToolReply) -> Response | None:
    """The answer to a call that a person must agree to first; None for a call that is done."""
    if reply.proposal is None:
        return None
    content = {"call_id": reply.call_id, "status": reply.status, "proposal_id": reply.proposal.proposal_id}
    return json_answer(content, 202)


@router.get("/api/tools", response_model=None, responses=documented({200: Tools}))
async def on_list(caller: CallerDep) -> Response:
    command = ListTools(grant=caller.grant(), route=Route.HTTP)
    return page((await caller.ask("tool-executor", "list-tools", command, ToolList)).tools)


@router.post("/api/tools/{name}/calls", response_model=None, responses=documented({200: ToolDone, 202: ToolWaiting}))
async def on_call(name: str, body: ToolArguments, caller: CallerDep) -> Response:
    reply = await governed_call(caller, name, body.args)
    decision = reply.decision
    return waiting(reply) or json_answer(
        {
            "call_id": reply.call_id,
            "status": reply.status,
            "result": reply.result or {},
            "decision": {
                "effect": decision.effect,
                "risk": decision.risk.value,
                "policy_revision": decision.policy_revision,
            },
        }
    )


@router.get(
    "/api/tools/document-versions/{document_id}",
    response_model=None,
    responses=documented({200: DocumentText, 202: ToolWaiting}),
)
async def on_document_version(
    document_id: Id, caller: CallerDep, version: int | None = Query(default=None, ge=1)
) -> Response:
    """The text of one version, parsed anew from its original file.

    Whoever may not read versions is told what is told about a version that is not there: this is a look at a
    resource, not a call of a tool by its name.
    """
    args: dict[str, Any] = {"document_id": document_id} | ({"version": version} if version else {})
    try:
        reply = await governed_call(caller, "read_document_version", args)
    except PlacetError as error:
        if error.code in NOT_THEIRS:
            raise not_found() from error
        raise
    result = reply.result or {}
    return waiting(reply) or json_answer({name: result.get(name) for name in DocumentText.model_fields})
