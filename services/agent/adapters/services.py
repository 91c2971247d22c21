"""The other services, by their commands."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.approvals import DecisionResult, WithdrawProposal
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import (
    Budget,
    Citation,
    Citations,
    ExecuteTool,
    ListTools,
    ResolveCitations,
    ToolList,
    ToolReply,
)
from placet.contracts.runs import Done, SaveSummary, Summary, SummaryOf
from placet.contracts.tools import Route
from placet.messaging.rpc import RpcClient
from placet.observability import logs
from services.agent.domain.calls import Call
from services.agent.domain.run import Run
from services.agent.ports import Influence, Offered

log = logs.get(__name__)

EXECUTOR, APPROVAL, MEMORY = "tool-executor", "approval", "memory"
_MOST_CHUNKS = 100
_MOST_EVIDENCE = 1000
_MEMORY_TIMEOUT_S = 2.0


class ExecutorDoor:
    """Implements `ToolDoor`."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    async def offered(self, run: Run, route: Route) -> Offered:
        command = ListTools(grant=run.grant, route=route)
        reply = await self._rpc.call(EXECUTOR, "list-tools", command, ToolList, tenant=run.tenant)
        return Offered(reply.tools, reply.active, reply.policy_revision)

    async def execute(
        self, run: Run, call: Call, route: Route, *, influence: Influence, budget: Budget, timeout_s: float
    ) -> ToolReply:
        command = ExecuteTool(
            grant=run.grant,
            call_id=call.call_id,
            tool=call.tool,
            args=call.args,
            route=route,
            intent=run.question,
            conversation_id=run.conversation_id,
            lineage=influence.lineage,
            authors=influence.authors,
            untrusted_documents=influence.untrusted_documents,
            budget=budget,
        )
        return await self._rpc.call(
            EXECUTOR, "execute-tool", command, ToolReply, tenant=run.tenant, timeout_s=timeout_s
        )

    async def resolve(self, run: Run, chunk_ids: Sequence[str]) -> tuple[Citation, ...]:
        if not chunk_ids:
            return ()
        command = ResolveCitations(grant=run.grant, chunk_ids=tuple(chunk_ids[:_MOST_CHUNKS]))
        return (await self._rpc.call(EXECUTOR, "resolve-citations", command, Citations, tenant=run.tenant)).items

    async def readable(self, run: Run, evidence: Sequence[str]) -> frozenset[str]:
        if not evidence:
            return frozenset()
        command = ResolveCitations(grant=run.grant, chunk_ids=(), evidence=tuple(evidence[:_MOST_EVIDENCE]))
        reply = await self._rpc.call(EXECUTOR, "resolve-citations", command, Citations, tenant=run.tenant)
        return frozenset(reply.readable)


class ApprovalProposals:
    """Implements `Proposals`."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    async def withdraw(self, run: Run, proposal_id: str, *, leave: bool = False) -> bool:
        command = WithdrawProposal(grant=run.grant, proposal_id=proposal_id, leave=leave)
        try:
            await self._rpc.call(APPROVAL, "withdraw", command, DecisionResult, tenant=run.tenant)
        except PlacetError as error:
            if error.code in (ErrorCode.ALREADY_DECIDED, ErrorCode.EXPIRED, ErrorCode.NOT_FOUND):
                return False
            raise
        return True


class MemorySummaries:
    """Implements `Summaries`: a failure is logged and costs the hint, nothing else."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    async def load(self, run: Run) -> str | None:
        command = SummaryOf(grant=run.grant, conversation_id=run.conversation_id)
        try:
            reply = await self._rpc.call(
                MEMORY, "get-summary", command, Summary, tenant=run.tenant, timeout_s=_MEMORY_TIMEOUT_S
            )
        except PlacetError as error:
            if error.code is not ErrorCode.NOT_FOUND:
                log.warning("no summary for this run", code=error.code)
            return None
        return reply.summary

    async def save(self, run: Run, summary: str) -> None:
        command = SaveSummary(grant=run.grant, conversation_id=run.conversation_id, summary=summary)
        try:
            await self._rpc.call(MEMORY, "save-summary", command, Done, tenant=run.tenant, timeout_s=_MEMORY_TIMEOUT_S)
        except PlacetError as error:
            log.warning("the summary was not saved", code=error.code)
