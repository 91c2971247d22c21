"""The original of a draft or an archived version is the text that `read_document_version` gives: one gate before both.

It is given as policy decides on that tool now: at once, not at all, or for an hour after people have agreed. Only to
its owner, who needs no such tool to look after drafts, it is given although policy would refuse the tool.
"""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.envelope import now
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.tools import Route
from placet.observability.context import new_id
from placet.toolkit import ToolContext
from services.tool_executor.domain.facts import Circumstances, actor_of
from services.tool_executor.errors import denial, tool_not_allowed
from services.tool_executor.handlers.assessment import Assessor
from services.tool_executor.handlers.identity import Caller
from services.tool_executor.ports import DocumentFacts, Documents

_TOOL = "read_document_version"


@dataclass(frozen=True, slots=True)
class UnpublishedTexts:
    assessor: Assessor
    documents: Documents

    async def require(self, caller: Caller, known: DocumentFacts) -> None:
        """Raises `PlacetError`: `permission_denied`, `policy_unavailable`, or what reading the document ends with."""
        view, person = known.view, caller.person
        if view.status == "published":
            return
        spec = self.assessor.registry.get(_TOOL)
        if spec is None:
            raise tool_not_allowed()
        context = ToolContext(actor_of(person), new_id("call"), caller.grant.request_id, now())
        around = Circumstances(route=Route.HTTP, channel=caller.channel)
        arguments = {"document_id": view.document_id, "version": view.version}
        decision = (await self.assessor.assess(spec, context, person, arguments, around)).decision
        if decision.effect == "deny":
            if person.id in known.owners and decision.code is not ErrorCode.POLICY_UNAVAILABLE:
                return
            raise denial(decision)
        if decision.effect != "allow" and not await self.documents.released(
            person.tenant, person.id, view.document_id, view.version
        ):
            message = "This version is shown after somebody has agreed: ask for its text."
            raise PlacetError(ErrorCode.PERMISSION_DENIED, message)
