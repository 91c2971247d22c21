"""Small real stand-ins of the services behind the gateway: they answer on the bus, as their own bus users."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from placet.contracts import approvals, execution, runs
from placet.contracts.directory import Person
from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import DecisionKind, FinishReason, ProposalStatus, ProposalView
from placet.contracts.tools import Annotations, Effect, RetryClass, Risk, Sensitivity, ToolDescriptor
from placet.contracts.topology import DURABLES
from placet.identity.grants import Grant, GrantVerifier, Purpose
from placet.messaging.append import Appender, NewEvent
from placet.messaging.connection import Bus
from placet.messaging.rpc import Call, RpcServer
from placet.messaging.work_queue import Job, WorkQueue
from placet.testkit.builders import person

__all__ = ["Asked", "FakeAgent", "FakeApproval", "FakeExecutor", "FakeMemory"]

RUN_QUEUE = next(durable for durable in DURABLES if durable.name == "agent__run-queue-v1")
ORIGINAL = bytes(range(256)) * 2600  # 665,600 bytes: three slices
NOTE = execution.DecisionNote(effect="allow", risk=Risk.LOW, policy_revision="sha256:rev")


@dataclass(frozen=True, slots=True)
class Asked:
    """One command as a service got it."""

    name: str
    command: Any
    grant: Grant
    request_id: str


@dataclass(slots=True)
class Service:
    """Checks every grant and remembers what it was asked."""

    owner: str
    bus: Bus
    grants: GrantVerifier
    asked: list[Asked] = field(default_factory=list)
    server: RpcServer | None = None

    async def start(self, handlers: dict[str, Callable[[Grant, Any], Awaitable[BaseModel]]]) -> None:
        self.server = RpcServer(self.bus, self.owner, {name: self._checked(name, do) for name, do in handlers.items()})
        await self.server.start()

    async def stop(self) -> None:
        if self.server:
            await self.server.stop()

    def _checked(
        self, name: str, do: Callable[[Grant, Any], Awaitable[BaseModel]]
    ) -> Callable[[Call, Any], Awaitable[BaseModel]]:
        async def handle(call: Call, command: Any) -> BaseModel:
            grant = self.grants.verify(command.grant, call.tenant)
            self.asked.append(Asked(name, command, grant, call.context.request_id))
            return await do(grant, command)

        return handle

    def last(self, name: str) -> Asked:
        return [one for one in self.asked if one.name == name][-1]

    def count(self, name: str) -> int:
        return sum(one.name == name for one in self.asked)


class FakeAgent(Service):
    """Drives runs by the first word of the question: `answer …`, `refund …`, `hold …` (started, then silent)."""

    runs: dict[str, runs.RunEvent]
    jobs: list[Job]

    async def open(self) -> None:
        self.runs, self.jobs = {}, []
        self._appender = Appender(self.bus, "agent", "RUNS")
        self._positions: dict[str, int] = {}
        self._queue: WorkQueue | None = None
        await self.start({"cancel-run": self.on_cancel})
        await self.take_jobs()

    async def take_jobs(self) -> None:
        self._queue = WorkQueue(self.bus, RUN_QUEUE, self.on_job, concurrency=16)
        await self._queue.start()

    async def leave_jobs(self) -> None:
        if self._queue:
            await self._queue.stop()
        self._queue = None

    async def close(self) -> None:
        await self.leave_jobs()
        await self.stop()

    async def on_job(self, job: Job) -> None:
        command = runs.StartRun.model_validate(job.event.envelope.data)
        grant = self.grants.verify(command.grant, job.event.tenant, purpose=Purpose.RUN, run_id=command.run_id)
        self.jobs.append(job)
        if command.run_id in self.runs:
            return
        await self.begin(grant, command.run_id, command.conversation_id)
        word = command.question.split()[0]
        if word == "answer":
            await self.append(command.run_id, "run-routed", {"route": "fixed_rag"})
            await self.append(command.run_id, "message-delta", {"text": "650"})
            await self.complete(command.run_id, "650", ["doc-1:v2:chunk-01", "doc-9:v1:chunk-01"])
        elif word == "refund":
            await self.append(command.run_id, "run-waiting-for-human", waiting_card())

    async def begin(self, grant: Grant, run_id: str, conversation_id: str = "conv-1") -> None:
        started = {"run_id": run_id, "conversation_id": conversation_id}
        self.runs[run_id] = runs.RunEvent(
            run_id=run_id,
            seq=1,
            owner=grant.actor,
            conversation_id=conversation_id,
            data=started,
            node="start",
            limits={"steps": 8},
            started_at=now().isoformat(),
        )
        self._positions[run_id] = 0
        await self._append(grant.tenant, "run-started", self.runs[run_id])

    async def append(self, run_id: str, name: str, data: dict[str, Any], tenant: str = "acme") -> None:
        last = self.runs[run_id]
        self.runs[run_id] = last.model_copy(update={"seq": last.seq + 1, "data": data, "node": name})
        await self._append(tenant, name, self.runs[run_id])

    async def complete(self, run_id: str, answer: str, chunk_ids: list[str], finish_reason: str = "success") -> None:
        citations = [citation(chunk_id).model_dump(mode="json") for chunk_id in chunk_ids]
        end = {"finish_reason": finish_reason, "answer": answer, "citations": citations}
        await self.append(run_id, "run-completed", end)

    async def _append(self, tenant: str, name: str, event: runs.RunEvent) -> None:
        appended = await self._appender.append(
            tenant, NewEvent(name, event.run_id, event), self._positions[event.run_id]
        )
        self._positions[event.run_id] = appended.seq

    async def on_cancel(self, grant: Grant, command: runs.CancelRun) -> BaseModel:
        if grant.purpose is not Purpose.RUN or grant.run_id != command.run_id:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "not a grant for this run")
        await self.complete(command.run_id, "", [], "cancelled")
        return runs.CancelAccepted(run_id=command.run_id)


def waiting_card() -> dict[str, Any]:
    return {
        "proposal_id": "prop-1",
        "tool": "refund_payment",
        "title": "Refund a payment",
        "risk": "critical_funds",
        "expires_at": "2026-11-30T12:15:00+00:00",
    }


def citation(chunk_id: str) -> execution.Citation:
    document = chunk_id.partition(":")[0]
    return execution.Citation(
        chunk_id=chunk_id,
        document_id=document,
        title="Travel",
        version=2,
        snippet="650 per night",
        href=f"/api/documents/{document}/source?version=2",
    )


class FakeExecutor(Service):
    """A tool per behaviour. `doc-1` may be read, `doc-9` no longer."""

    people: dict[str, Person]
    delay_s: float

    async def open(self) -> None:
        self.people = {"alice": person("alice")}
        self.delay_s = 0.0
        await self.start(
            {
                "execute-tool": self.on_execute,
                "list-tools": self.on_list_tools,
                "resolve-citations": self.on_resolve,
                "list-documents": self.on_list_documents,
                "get-document": self.on_get_document,
                "read-source": self.on_read_source,
                "get-person": self.on_get_person,
                "put-person": self.on_put_person,
                "settle-effect": self.on_settle,
            }
        )

    async def on_execute(self, grant: Grant, command: execution.ExecuteTool) -> BaseModel:
        await asyncio.sleep(self.delay_s)
        result = self._result(grant, command)
        if isinstance(result, execution.ProposalNote):
            return execution.ToolReply(
                call_id=command.call_id,
                tool=command.tool,
                status="waiting_for_human",
                decision=NOTE.model_copy(update={"effect": "require_approval"}),
                proposal=result,
            )
        return execution.ToolReply(
            call_id=command.call_id, tool=command.tool, status="ok", result=result, decision=NOTE
        )

    def _result(self, grant: Grant, command: execution.ExecuteTool) -> dict[str, Any] | execution.ProposalNote:
        args = command.args
        match command.tool:
            case "echo":
                return {"echo": args}
            case "search_knowledge":
                hit = citation("doc-1:v2:chunk-01").model_dump(mode="json", exclude={"href"})
                return {"items": [{**hit, "score": 0.9, "text": "the whole passage"}]}
            case "read_document_version":
                version = args.get("version", 2)
                return {"document_id": args["document_id"], "version": version, "status": "published", "content": "x"}
            case "refund_payment":
                return proposal_note("prop-1", "refund_payment")
            case "create_publish_proposal" if command.route.value == "http_publish":
                return proposal_note("prop-publish", "apply_publish_decision")
            case "busy":
                raise PlacetError(ErrorCode.RATE_LIMITED, "The tool is at its limit.")
            case "policyless":
                raise PlacetError(ErrorCode.POLICY_UNAVAILABLE, "Policy gave no answer.")
            case "picky":
                raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "Wrong.", errors=[{"field": "x", "problem": "no"}])
            case "foreign_grant":
                raise PlacetError(ErrorCode.UNAUTHENTICATED, "The grant is not valid for this call.")
        raise PlacetError(ErrorCode.TOOL_NOT_ALLOWED, "This tool is not offered here.")

    async def on_list_tools(self, grant: Grant, command: execution.ListTools) -> BaseModel:
        hints = Annotations(
            title="Echo", readOnlyHint=True, destructiveHint=False, idempotentHint=True, openWorldHint=False
        )
        tool = ToolDescriptor(
            name="echo",
            title="Echo",
            description="Says it again.",
            version="1",
            sensitivity=Sensitivity.READ,
            effect=Effect.NONE,
            risk=Risk.LOW,
            timeout_s=5,
            retry=RetryClass.SAFE,
            needs_idempotency_key=False,
            undo_tool=None,
            annotations=hints,
            input_schema={"type": "object"},
            output_schema={"type": "object"},
        )
        return execution.ToolList(tools=(tool,))

    async def on_resolve(self, grant: Grant, command: execution.ResolveCitations) -> BaseModel:
        readable = [citation(chunk_id) for chunk_id in command.chunk_ids if not chunk_id.startswith("doc-9")]
        return execution.Citations(items=tuple(readable))

    async def on_list_documents(self, grant: Grant, command: execution.ListDocuments) -> BaseModel:
        return execution.DocumentPage(items=(document("doc-1"),), next=f"{command.cursor or 'start'}+{command.limit}")

    async def on_get_document(self, grant: Grant, command: execution.GetDocument) -> BaseModel:
        return document(self._readable(command.document_id))

    async def on_read_source(self, grant: Grant, command: execution.ReadSource) -> BaseModel:
        self._readable(command.document_id)
        chunk = ORIGINAL[command.offset : command.offset + command.limit]
        return execution.SourceSlice(
            data=base64.b64encode(chunk).decode(), size=len(ORIGINAL), media_type="text/plain", filename='差旅 "v2".txt'
        )

    def _readable(self, document_id: str) -> str:
        if document_id != "doc-1":
            raise not_found()
        return document_id

    async def on_get_person(self, grant: Grant, command: execution.GetPerson) -> BaseModel:
        return execution.PersonReply(person=self._person(grant, command.user_id))

    async def on_put_person(self, grant: Grant, command: execution.PutPerson) -> BaseModel:
        changed = self._person(grant, command.user_id).model_copy(update=command.change.model_dump())
        self.people[command.user_id] = changed
        return execution.PersonReply(person=changed)

    def _person(self, grant: Grant, user_id: str) -> Person:
        if grant.actor != "directory_admin" or user_id not in self.people:
            raise not_found()
        return self.people[user_id]

    async def on_settle(self, grant: Grant, command: execution.SettleEffect) -> BaseModel:
        return execution.EffectState(key=command.key, state=command.outcome, tool="refund_payment")


def document(document_id: str) -> execution.DocumentView:
    return execution.DocumentView(
        document_id=document_id,
        knowledge_base_id="kb-1",
        title="Travel",
        version=2,
        status="published",
        lock_version=3,
        media_type="text/plain",
        sha256="0" * 64,
        size=len(ORIGINAL),
    )


def proposal_note(proposal_id: str, tool: str) -> execution.ProposalNote:
    return execution.ProposalNote(
        proposal_id=proposal_id, tool=tool, title="T", risk=Risk.HIGH, expires_at="2026-11-30T12:15:00+00:00"
    )


class FakeApproval(Service):
    """Proposals that `requester` and `dave` may see; only `deciders` may decide. Publishing takes `work_s`."""

    proposals: dict[str, ProposalView]
    deciders: set[str]
    work_s: float
    publish_end: FinishReason

    async def open(self, *proposals: ProposalView) -> None:
        self.deciders = {"dave", "carol"}
        self._work: set[asyncio.Task[None]] = set()
        self.reset(*proposals)
        await self.start(
            {
                "get-proposal": self.on_get,
                "list-proposals": self.on_list,
                "list-proposal-events": self.on_events,
                "decide": self.on_decide,
                "query-audit": self.on_audit,
            }
        )

    def reset(self, *proposals: ProposalView) -> None:
        """These proposals and no other; work on earlier ones is dropped."""
        for task in self._work:
            task.cancel()
        self.proposals = {one.proposal_id: one for one in proposals}
        self.work_s = 0.15
        self.publish_end = FinishReason.SUCCESS

    def _visible(self, grant: Grant, proposal_id: str) -> ProposalView:
        found = self.proposals.get(proposal_id)
        if found is None or grant.actor not in {found.requester, *self.deciders}:
            raise not_found()
        return found

    async def on_get(self, grant: Grant, command: approvals.GetProposal) -> BaseModel:
        return approvals.ProposalReply(proposal=self._visible(grant, command.proposal_id))

    async def on_list(self, grant: Grant, command: approvals.ListProposals) -> BaseModel:
        found = [one for one in self.proposals.values() if command.tool in (None, one.tool)]
        return approvals.ProposalPage(items=tuple(found), next="more")

    async def on_events(self, grant: Grant, command: approvals.ListProposalEvents) -> BaseModel:
        proposal = self._visible(grant, command.proposal_id)
        event = approvals.StoredEvent(
            seq=1, name="proposed", time=now().isoformat(), data={"by": proposal.requester}, verified=True
        )
        return approvals.ProposalEvents(items=(event,))

    async def on_decide(self, grant: Grant, command: approvals.DecideProposal) -> BaseModel:
        proposal = self._visible(grant, command.proposal_id)
        if grant.actor not in self.deciders:
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "Not yours to decide.")
        if proposal.status is not ProposalStatus.PENDING:
            raise PlacetError(ErrorCode.ALREADY_DECIDED, "Decided already.")
        if command.digest != proposal.digest:
            raise PlacetError(ErrorCode.CONFLICT, "Another digest.")
        if proposal.challenge and command.decision is DecisionKind.APPROVE and not command.acknowledgements:
            raise PlacetError(ErrorCode.CHALLENGE_FAILED, "The challenge is not answered.")
        if command.decision is DecisionKind.REJECT:
            self._set(proposal.proposal_id, ProposalStatus.COMPLETED, FinishReason.REJECTED)
        else:
            self._set(proposal.proposal_id, ProposalStatus.APPROVED, None)
            task = asyncio.create_task(self._carry_out(proposal.proposal_id))
            self._work.add(task)
            task.add_done_callback(self._work.discard)
        after = self.proposals[proposal.proposal_id]
        return approvals.DecisionResult(
            proposal_id=after.proposal_id,
            status=after.status,
            finish_reason=after.finish_reason,
            digest=after.digest,
        )

    async def _carry_out(self, proposal_id: str) -> None:
        await asyncio.sleep(self.work_s)
        self._set(proposal_id, ProposalStatus.COMPLETED, self.publish_end)

    def _set(self, proposal_id: str, status: ProposalStatus, reason: FinishReason | None) -> None:
        changed = self.proposals[proposal_id].model_copy(update={"status": status, "finish_reason": reason})
        self.proposals[proposal_id] = changed

    async def on_audit(self, grant: Grant, command: approvals.QueryAudit) -> BaseModel:
        if grant.actor != "auditor":
            raise PlacetError(ErrorCode.PERMISSION_DENIED, "Only an auditor may read the audit trail.")
        return approvals.AuditPage(items=(), next=str(command.after + command.limit))


class FakeMemory(Service):
    summaries: dict[tuple[str, str, str], str]

    async def open(self) -> None:
        self.summaries = {}
        await self.start({"get-summary": self.on_get, "forget-summary": self.on_forget})

    async def on_get(self, grant: Grant, command: runs.SummaryOf) -> BaseModel:
        text = self.summaries.get((grant.tenant, grant.actor, command.conversation_id))
        if text is None:
            raise not_found()
        return runs.Summary(summary=text, updated_at="2026-11-30T12:00:00+00:00")

    async def on_forget(self, grant: Grant, command: runs.SummaryOf) -> BaseModel:
        if self.summaries.pop((grant.tenant, grant.actor, command.conversation_id), None) is None:
            raise not_found()
        return runs.Done()
