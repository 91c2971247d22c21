"""Case tables: who does what, and what policy must say. `policies/cases/*.json`, run against any engine.

`world.json` names people, tools and resources; every other file says what it is `about` and what it `ask`s, in `rows`
(a question and the part of the answer that matters) or as a `matrix` of tool x person -> effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from placet.contracts.policy import (
    Action,
    ActionProperties,
    ApproverFacts,
    BudgetFacts,
    Channel,
    Context,
    DecisionInput,
    Influence,
    ProposalAction,
    ProposalFacts,
    Resource,
    Stage,
    Subject,
    SubjectProperties,
)
from placet.contracts.tools import Route
from placet.policy.port import PolicyDecisionPoint

WORLD = "world.json"
AGENT = "assistant"
FRESH = BudgetFacts.model_validate({"tool_calls": {"used": 0, "limit": 12}, "spend": {"used": 0, "limit": 5000}})


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class World(_Table):
    """The people, tool declarations and resources that rows name."""

    people: dict[str, SubjectProperties]
    tools: dict[str, ActionProperties]
    resources: dict[str, Resource]

    def subject(self, who: str, now: dict[str, Any]) -> Subject:
        return Subject(id=who, properties=SubjectProperties.model_validate(self.people[who].model_dump() | now))

    def approver(self, who: str) -> ApproverFacts:
        facts = self.people[who]
        return ApproverFacts(id=who, tenant=facts.tenant, active=facts.active, roles=facts.roles)


class _Row(_Table):
    """`now` changes the person's facts, `expect` is the part of the answer that is compared."""

    name: str
    who: str
    now: dict[str, Any] = {}
    expect: dict[str, Any]


class DecideRow(_Row):
    """`on`: a resource of the world, `facts` changes it. `declared` changes the tool's declaration."""

    ask: Literal["decide"]
    tool: str
    on: str | None = None
    route: Route
    channel: Channel = "chat"
    args: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    declared: dict[str, Any] = {}
    stage: Stage = "propose"
    agent: str | None = None
    manifest: str | None = None
    budget: BudgetFacts | None = None
    influence: Influence = Influence()
    approved_by: tuple[str, ...] = ()

    async def answer(self, policy: PolicyDecisionPoint, world: World) -> BaseModel:
        return await policy.decide(self.request(world))

    def request(self, world: World) -> DecisionInput:
        declared = world.tools[self.tool].model_dump() | self.declared | {"stage": self.stage}
        acted_by_agent = self.channel == "chat"
        return DecisionInput(
            subject=world.subject(self.who, self.now),
            action=Action(name=self.tool, properties=ActionProperties.model_validate(declared)),
            resource=self._resource(world),
            context=Context(
                args=self.args,
                route=self.route,
                channel=self.channel,
                agent=self.agent or (AGENT if acted_by_agent else None),
                manifest=self.manifest or (AGENT if acted_by_agent else None),
                budget=self.budget or (FRESH if acted_by_agent else None),
                influence=self.influence,
                approvals=tuple(world.approver(who) for who in self.approved_by),
            ),
        )

    def _resource(self, world: World) -> Resource:
        found = world.resources[self.on] if self.on else Resource.none()
        return found.model_copy(update={"properties": {**found.properties, **self.facts}})


class BoundToolsRow(_Row):
    ask: Literal["bound_tools"]
    route: Route
    channel: Channel = "chat"
    agent: str | None = AGENT
    manifest: str | None = AGENT

    async def answer(self, policy: PolicyDecisionPoint, world: World) -> BaseModel:
        subject = world.subject(self.who, self.now)
        return await policy.bound_tools(
            subject, self.route, channel=self.channel, agent=self.agent, manifest=self.manifest
        )


class ProposalRow(_Row):
    ask: Literal["who_may_decide"]
    action: ProposalAction
    proposal: ProposalFacts

    async def answer(self, policy: PolicyDecisionPoint, world: World) -> BaseModel:
        return await policy.who_may_decide(world.subject(self.who, self.now), self.action, self.proposal)


class KnowledgeRow(_Row):
    ask: Literal["knowledge_scope"]

    async def answer(self, policy: PolicyDecisionPoint, world: World) -> BaseModel:
        return await policy.knowledge_scope(world.subject(self.who, self.now))


class AdminRow(_Row):
    ask: Literal["admin"]
    duty: str
    resource: Resource | None = None

    async def answer(self, policy: PolicyDecisionPoint, world: World) -> BaseModel:
        return await policy.admin(world.subject(self.who, self.now), self.duty, self.resource)


Row = Annotated[DecideRow | BoundToolsRow | ProposalRow | KnowledgeRow | AdminRow, Field(discriminator="ask")]


class Table(_Table):
    """One file. `matrix`: tool -> person -> effect, every cell a row on `route` over `channel`."""

    about: str
    ask: Literal["decide", "bound_tools", "who_may_decide", "knowledge_scope", "admin"]
    route: Route | None = None
    channel: Channel = "chat"
    on: dict[str, str] = {}
    args: dict[str, dict[str, Any]] = {}
    matrix: dict[str, dict[str, Literal["allow", "deny", "require_approval"]]] = {}
    rows: tuple[Row, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _rows_ask_what_the_table_asks(cls, table: dict[str, Any]) -> dict[str, Any]:
        return {**table, "rows": [{"ask": table.get("ask"), **row} for row in table.get("rows", [])]}

    def all_rows(self) -> Iterator[Row]:
        yield from self.rows
        for tool, cells in self.matrix.items():
            for who, effect in cells.items():
                yield DecideRow.model_validate(
                    {
                        "ask": "decide",
                        "name": f"{who} {tool}",
                        "who": who,
                        "tool": tool,
                        "on": self.on.get(tool),
                        "args": self.args.get(tool, {}),
                        "route": self.route,
                        "channel": self.channel,
                        "expect": {"effect": effect},
                    }
                )


class Case(_Table):
    """One question with the world it is asked in. `name` is unique: file and row."""

    name: str
    row: Row
    world: World

    async def run(self, policy: PolicyDecisionPoint) -> str | None:
        """None when the answer holds all that is expected, else what is different."""
        answer = (await self.row.answer(policy, self.world)).model_dump(mode="json")
        return difference(self.row.expect, answer)


def load_cases(cases_dir: Path) -> tuple[Case, ...]:
    """Raises `ValidationError` (a `ValueError`) for a table that does not say what it means, `OSError`."""
    world = World.model_validate_json((cases_dir / WORLD).read_bytes())
    cases = [
        Case(name=f"{path.stem}: {row.name}", row=row, world=world)
        for path in sorted(cases_dir.glob("*.json"))
        if path.name != WORLD
        for row in Table.model_validate_json(path.read_bytes()).all_rows()
    ]
    names = [case.name for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two cases of one name: {sorted(twice)}")
    return tuple(cases)


def difference(expected: Any, actual: Any, place: str = "answer") -> str | None:
    """The first difference. Objects are compared by the keys that are expected, everything else as a whole."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found = (difference(value, actual.get(key), f"{place}.{key}") for key, value in expected.items())
        return next((text for text in found if text), None)
    return None if expected == actual else f"{place}: expected {expected!r}, got {actual!r}"
