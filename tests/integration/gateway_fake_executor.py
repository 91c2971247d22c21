"""A small real stand-in of the tool-executor: one tool per behaviour."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from gateway_fakes import Service, citation
from pydantic import BaseModel

from placet.contracts import execution
from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.tools import Annotations, Effect, RetryClass, Risk, Sensitivity, ToolDescriptor
from placet.identity.grants import Grant
from placet.testkit.builders import person

ORIGINAL = bytes(range(256)) * 2600  # 665,600 bytes: three slices
NOTE = execution.DecisionNote(effect="allow", risk=Risk.LOW, policy_revision="sha256:rev")


class FakeExecutor(Service):
    """A tool per behaviour. `doc-1` may be read, `doc-9` no longer."""

    people: dict[str, Person]
    delay_s: float
    hidden: set[str]

    async def open(self) -> None:
        self.people = {"alice": person("alice")}
        self.delay_s = 0.0
        self.hidden = {"doc-9"}
        self.dismissed: set[str] = set()
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
        hidden = tuple(self.hidden)
        readable = [citation(chunk_id) for chunk_id in command.chunk_ids if not chunk_id.startswith(hidden)]
        return execution.Citations(
            items=tuple(readable),
            active=grant.actor not in self.dismissed,
            readable=tuple(one for one in command.evidence if not one.startswith(hidden)),
        )

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
