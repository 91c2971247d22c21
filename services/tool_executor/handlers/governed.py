"""A governed call on its way through the executor."""

from __future__ import annotations

from dataclasses import dataclass

from placet.contracts.digests import proposal_id_of
from placet.contracts.execution import ExecuteTool
from placet.contracts.proposals import Origin
from placet.toolkit import ToolContext, ToolSpec
from services.tool_executor.domain.arguments import Stripped
from services.tool_executor.domain.facts import Circumstances
from services.tool_executor.handlers.identity import Caller


@dataclass(frozen=True, slots=True)
class Governed:
    """One call on its way through: who, what, and what was taken out of it."""

    caller: Caller
    command: ExecuteTool
    spec: ToolSpec
    stripped: Stripped
    context: ToolContext
    around: Circumstances
    # The first call of this run with the same tool and arguments: its effect, and its proposal, are this call's (W8).
    first_call: str

    @property
    def tenant(self) -> str:
        return self.caller.grant.tenant

    @property
    def proposal_id(self) -> str:
        grant = self.caller.grant
        return proposal_id_of(grant.tenant, grant.actor, grant.run_id, self.first_call)

    @property
    def repeated(self) -> bool:
        return self.first_call != self.command.call_id

    @property
    def origin(self) -> Origin:
        command, grant = self.command, self.caller.grant
        return Origin(
            tenant=grant.tenant,
            requester=grant.actor,
            run_id=grant.run_id,
            call_id=self.first_call,
            route=command.route.value,
            conversation_id=command.conversation_id,
            intent=command.intent,
            lineage=command.lineage,
            authors=command.authors,
            untrusted_documents=command.untrusted_documents,
            request_id=self.context.request_id,
        )
