"""What policy is asked and what it answers: an AuthZEN 1.0 request, a decision and its obligations.

Inputs and answers reject unknown fields. An obligation nobody here knows could not be kept, so it is an invalid answer,
and an invalid answer is a denial (`placet.policy`).
"""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, model_validator

from placet.contracts.directory import Person
from placet.contracts.errors import ErrorCode
from placet.contracts.tools import Effect, Risk, Route, Sensitivity

Stage = Literal["propose", "commit"]
Channel = Literal["chat", "http"]
ProposalAction = Literal["approve", "edit", "reject", "respond", "view"]
DecisionEffect = Literal["allow", "deny", "require_approval"]
DenialCode = Literal[
    ErrorCode.TOOL_NOT_ALLOWED, ErrorCode.PERMISSION_DENIED, ErrorCode.POLICY_UNAVAILABLE, ErrorCode.LIMIT_REACHED
]
EligibilityCode = Literal[ErrorCode.PERMISSION_DENIED, ErrorCode.NOT_FOUND, ErrorCode.POLICY_UNAVAILABLE]

NO_REVISION = "unknown"


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SubjectProperties(_Facts):
    """The directory's facts about a person at this moment, never what a token or an argument claims."""

    tenant: str
    active: StrictBool
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    clearance: StrictInt = 0


class Subject(_Facts):
    """Who asks."""

    type: Literal["user"] = "user"
    id: str = Field(min_length=1)
    properties: SubjectProperties

    @classmethod
    def of(cls, person: Person) -> Self:
        facts = person.model_dump(include={"tenant", "active", "roles", "teams", "clearance"})
        return cls(id=person.id, properties=SubjectProperties(**facts))


class ActionProperties(_Facts):
    """What the tool declares. `domain` is needed only for tools that the policy's own table does not list.

    `stage`: `propose` before anybody is asked, `commit` when an approved call is about to run.
    """

    sensitivity: Sensitivity
    effect: Effect = Effect.NONE
    risk: Risk
    stage: Stage = "propose"
    domain: str = ""


class Action(_Facts):
    """What is to be done: a tool call."""

    name: str = Field(min_length=1)
    properties: ActionProperties


class Resource(_Facts):
    """What is touched. `properties` are JSON facts read just now; `tenant` must be among them.

    Facts that the shipped policies read: `tenant`, `currency`, `paid` (amounts as number or decimal text),
    `served_by` or `owner` (an id or team, or a list of them), `readable` (the subject may read the knowledge base).
    """

    type: str = Field(min_length=1)
    id: str = Field(min_length=1)
    properties: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def none(cls) -> Self:
        """For a tool that touches no single existing thing (a search, a new ticket)."""
        return cls(type="none", id="none")


class Meter(_Facts):
    """`used` before this call, in the unit of `limit`."""

    used: float = Field(ge=0, allow_inf_nan=False)
    limit: float = Field(ge=0, allow_inf_nan=False)


class BudgetFacts(_Facts):
    """What the session has used: calls, and money in the currency of the policy's limits."""

    tool_calls: Meter
    spend: Meter


class Influence(_Facts):
    """What the call rests on: authors of the cited evidence and documents whose text nobody vouches for."""

    authors: tuple[str, ...] = ()
    untrusted_documents: tuple[str, ...] = ()


class ApproverFacts(_Facts):
    """One who approved, with the directory's facts of now, not of then."""

    id: str = Field(min_length=1)
    tenant: str
    active: StrictBool
    roles: tuple[str, ...] = ()

    @classmethod
    def of(cls, person: Person) -> Self:
        return cls(id=person.id, tenant=person.tenant, active=person.active, roles=person.roles)


class Context(_Facts):
    """The circumstances. `channel` is the grant's (a run: `chat`; a call a person makes: `http`), never the caller's.

    `agent` and `manifest` are None exactly when no agent makes the call; `budget` is None only on `http`.
    """

    args: dict[str, Any] = Field(default_factory=dict)
    route: Route
    channel: Channel
    agent: str | None = None
    manifest: str | None = None
    budget: BudgetFacts | None = None
    influence: Influence = Influence()
    approvals: tuple[ApproverFacts, ...] = ()


class DecisionInput(_Facts):
    """One tool call put before policy. Complete: a recorded input replays to the same decision."""

    subject: Subject
    action: Action
    resource: Resource = Field(default_factory=Resource.none)
    context: Context


class Obligations(_Facts):
    """What must be kept if the call goes on. Seconds for `ttl_s`; `mask` names fields of arguments and results.

    Empty `approver_roles` with `requester_may_approve` means: the requester alone confirms. `open_limit` is how many
    proposals of one tool a requester may have open at a time (None: any number).
    """

    approver_roles: tuple[str, ...] = ()
    approvals: StrictInt = Field(default=1, ge=1, le=10)
    requester_may_approve: StrictBool = False
    exclude_requester: StrictBool = True
    exclude_authors: StrictBool = False
    challenge: StrictBool = False
    mask: tuple[str, ...] = ()
    ttl_s: StrictInt = Field(default=900, ge=1, le=604_800)
    open_limit: StrictInt | None = Field(default=None, ge=1, le=10_000)

    def unmeetable(self) -> str | None:
        """Why nobody could ever fulfil this approval, or None."""
        if self.requester_may_approve and self.exclude_requester:
            return "the requester both may approve and is excluded"
        if not self.approver_roles and not self.requester_may_approve:
            return "nobody may approve"
        if not self.approver_roles and self.approvals > 1:
            return "the requester alone cannot be several people"
        return None


class _Answer(_Facts):
    """Every answer names the policy that the engine really evaluated; `reasons` are stable codes."""

    reasons: tuple[str, ...] = ()
    policy_revision: str = Field(default=NO_REVISION, min_length=1)


class Spending(_Facts):
    """Money this call moves and the limits it counts against, in the house currency; None: no such limit."""

    amount: float = Field(ge=0, allow_inf_nan=False)
    per_run: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    per_day: float | None = Field(default=None, ge=0, allow_inf_nan=False)


class Decision(_Answer):
    """May this call run? A denial has a code, everything else has none.

    `spending` is what the executor counts, race-safe, before the call goes on; `concurrency` how many calls of the
    tenant may be under way at once (None: any number).
    """

    effect: DecisionEffect
    code: DenialCode | None = None
    risk: Risk
    obligations: Obligations = Obligations()
    spending: Spending | None = None
    concurrency: StrictInt | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.effect == "deny") != (self.code is not None):
            raise ValueError("a denial has a code, and only a denial")
        if self.effect == "require_approval" and (why := self.obligations.unmeetable()):
            raise ValueError(why)
        return self


class Eligibility(_Answer):
    """May this person do this? Not visible: answer as if absent (404). Visible but not allowed: 403."""

    allowed: StrictBool
    visible: StrictBool
    code: EligibilityCode | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.allowed != (self.code is None) or (self.allowed and not self.visible):
            raise ValueError("exactly the refused have a code, and the allowed see what they may do")
        return self


class ProposalFacts(_Facts):
    """What `who_may_decide` needs to know. `given`: ids that already approved; `authors`: of the cited evidence."""

    id: str = Field(min_length=1)
    tenant: str
    requester: str
    tool: str
    risk: Risk
    obligations: Obligations
    given: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()


class BoundTools(_Answer):
    """The tools a model may be shown: route, manifest and role grants intersected, sorted by name."""

    tools: tuple[str, ...] = ()
    code: DenialCode | None = None


class Principals(_Facts):
    """Whose access lists count in a search."""

    tenant: str
    user: str
    roles: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()
    clearance: StrictInt = 0


class KnowledgeScope(_Answer):
    """What may be read at all; `principals` only when `visible`. `code` is set only when policy gave no answer."""

    visible: StrictBool
    principals: Principals | None = None
    code: Literal[ErrorCode.POLICY_UNAVAILABLE] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.visible != (self.principals is not None):
            raise ValueError("principals exactly when visible")
        return self
