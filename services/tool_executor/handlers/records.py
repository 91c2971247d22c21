"""The audit records of calls: denials and ends, complete enough to replay the decision (L1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.audit.trail import AuditTrail
from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.execution import ExecuteTool
from placet.toolkit import ToolSpec
from placet.toolkit.registry import ToolRegistry
from services.tool_executor.domain.ledger import Entry
from services.tool_executor.domain.masking import masked
from services.tool_executor.handlers.assessment import Assessment
from services.tool_executor.handlers.governed import Governed
from services.tool_executor.handlers.identity import Caller

_DENIED = (ErrorCode.TOOL_NOT_ALLOWED, ErrorCode.PERMISSION_DENIED, ErrorCode.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class CallRecords:
    """Written before the caller is answered: what cannot be recorded is not answered."""

    audit: AuditTrail
    registry: ToolRegistry

    async def decided(self, governed: Governed, assessment: Assessment, outcome: str, **fields: Any) -> None:
        await self._record(governed, assessment, "tool-decided", outcome, **fields)

    async def finished(
        self,
        governed: Governed,
        assessment: Assessment,
        data: dict[str, Any],
        *,
        entry: Entry | None = None,
        key: str | None = None,
    ) -> None:
        """Results of reads are not repeated in the record: who may read it need not be who may read them."""
        result = masked(data, assessment.decision.obligations.mask) if governed.spec.writes else None
        outcome = entry.state.value if entry else "ok"
        await self._record(governed, assessment, "tool-finished", outcome, result=result, idempotency_key=key)

    async def refused(
        self,
        caller: Caller,
        command: ExecuteTool,
        error: PlacetError,
        *,
        assessment: Assessment | None = None,
        spec: ToolSpec | None = None,
        note: str | None = None,
    ) -> None:
        """Denials are audited inside, however alike they look outside (I3)."""
        known = assessment.spec if assessment else spec
        name = known.name if known else self.label(command.tool)
        await self.audit.record(
            caller.grant.tenant,
            "access-denied" if error.code in _DENIED else "tool-finished",
            action=name,
            outcome="refused",
            code=error.code.value,
            note=note,
            **who(caller, command),
            **(_what(assessment) if assessment else {"tool": name}),
        )

    def label(self, tool: str) -> str:
        """A tool name fit for a record or a metric: an invented one is not repeated."""
        return tool if self.registry.get(tool) else "unknown_tool"

    async def _record(self, governed: Governed, assessment: Assessment, name: str, outcome: str, **fields: Any) -> None:
        await self.audit.record(
            governed.tenant,
            name,
            action=governed.spec.name,
            outcome=outcome,
            **who(governed.caller, governed.command),
            **_what(assessment),
            **fields,
        )


def who(caller: Caller, command: ExecuteTool) -> dict[str, Any]:
    return {
        "actor": caller.person.id,
        "roles": caller.person.roles,
        "run_id": caller.grant.run_id,
        "call_id": command.call_id,
    }


def _what(assessment: Assessment) -> dict[str, Any]:
    """The decided call, for the record: complete enough to be replayed, personal fields masked."""
    decision, mask = assessment.decision, assessment.decision.obligations.mask
    resource = assessment.decision_input.resource
    return {
        "tool": assessment.spec.name,
        "arguments": masked(assessment.arguments, mask),
        "resource": {"type": resource.type, "id": resource.id, "version": resource.properties.get("version")},
        "decision": decision.model_dump(mode="json"),
        "decision_input": masked(assessment.decision_input.model_dump(mode="json"), mask),
        "policy_revision": decision.policy_revision,
    }
