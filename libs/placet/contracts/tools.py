"""What a tool declares about itself, as every service and every caller of `GET /api/tools` sees it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict

# Who acts is told by the grant alone: these names are stripped from arguments and no tool may declare them (I2).
IDENTITY_FIELDS = frozenset(
    {
        "actor",
        "actor_id",
        "user",
        "user_id",
        "userid",
        "username",
        "principal",
        "on_behalf_of",
        "impersonate",
        "tenant",
        "tenant_id",
        "tenantid",
        "role",
        "roles",
        "clearance",
        "is_admin",
        "admin",
        "permissions",
        "approver",
        "approved",
        "approved_by",
        "approvals",
        "grant",
        "idempotency_key",
    }
)


class Sensitivity(StrEnum):
    READ = "read"
    SENSITIVE_READ = "sensitive_read"
    WRITE = "write"


class Effect(StrEnum):
    NONE = "none"
    REVERSIBLE = "reversible"
    IRREVERSIBLE = "irreversible"
    VISIBLE_TO_OTHERS = "visible_to_others"


class Risk(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL_FUNDS = "critical_funds"
    CRITICAL_SYSTEM = "critical_system"


class RetryClass(StrEnum):
    """`safe`: a read, repeat freely. `keyed`: repeat only with the same key after `lookup`. `never`: no repeat."""

    SAFE = "safe"
    KEYED = "keyed"
    NEVER = "never"


class Route(StrEnum):
    """What a run (or an HTTP entry) is for; it limits which tools are offered at all (T2)."""

    DIRECT = "direct"
    REFUSE = "refuse"
    FIXED_RAG = "fixed_rag"
    SUMMARY = "summary"
    AGENTIC_RAG = "agentic_rag"
    VERSION_TOOL = "version_tool"
    BUSINESS_QUERY = "business_query"
    BUSINESS_ACTION = "business_action"
    HTTP = "http"
    HTTP_PUBLISH = "http_publish"


class Annotations(BaseModel):
    """The MCP tool annotations (camelCase on the wire, as MCP spells them)."""

    model_config = ConfigDict(frozen=True)

    title: str
    readOnlyHint: bool
    destructiveHint: bool
    idempotentHint: bool
    openWorldHint: bool


class ToolDescriptor(BaseModel):
    """One tool, without its code. `input_schema`/`output_schema` are JSON Schema 2020-12."""

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    description: str
    version: str
    sensitivity: Sensitivity
    effect: Effect
    risk: Risk
    timeout_s: float
    retry: RetryClass
    needs_idempotency_key: bool
    undo_tool: str | None
    annotations: Annotations
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
