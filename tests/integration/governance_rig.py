"""The approval service and the tool-executor on a real bus, a real database and the embedded policy engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placet.cli.provisioning.run import provision
from placet.cli.provisioning.settings import Settings as ProvisionSettings
from placet.contracts.approvals import (
    AuditPage,
    DecideProposal,
    DecisionResult,
    GetProposal,
    ListProposalEvents,
    ListProposals,
    ProposalEvents,
    ProposalPage,
    ProposalReply,
    QueryAudit,
)
from placet.contracts.execution import Budget, EffectState, ExecuteTool, SettleEffect, ToolReply
from placet.contracts.proposals import Acknowledgements, DecisionKind, ProposalView
from placet.contracts.tools import Route
from placet.identity import keys
from placet.identity.grants import GrantMint, Purpose
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader
from placet.messaging.rpc import RpcClient
from placet.observability.context import RequestContext, bound, new_id
from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig
from placet.toolkit.registry import discover
from services.approval.app import Approval
from services.approval.app import build as build_approval
from services.approval.settings import Settings as ApprovalSettings
from services.tool_executor.app import ToolExecutor
from services.tool_executor.app import build as build_executor
from services.tool_executor.settings import Settings as ExecutorSettings
from tests.integration.odd_tools import OddPack

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Keys:
    directory: Path

    def private(self, name: str) -> Path:
        return self.directory / f"{name}.private.jwk"

    def public(self, name: str) -> Path:
        return self.directory / f"{name}.public.jwk"

    def make(self) -> None:
        for name in ("grant", "approval", "effect", "audit"):
            keys.write_pair(self.directory, name)


class GovernanceRig:
    """Commands in the name of people, as the gateway and the agent would send them."""

    def __init__(self, nats: NatsRig, postgres: PostgresRig, directory: Path) -> None:
        self.nats = nats
        self.postgres = postgres
        self.keys = Keys(directory / "keys")
        self.policies = directory / "policies"
        self.approval: Approval
        self.executor: ToolExecutor
        self._gateway: Bus
        self._agent: Bus

    async def prepare(self) -> None:
        """Keys, policies, bus, database and demo world: everything but the services."""
        self.keys.make()
        self._copy_policies()
        await provision(self._provision_settings(), lambda _: None)
        self.mint = GrantMint(keys.read(self.keys.private("grant")))
        self._gateway = await self.nats.bus("gateway")
        self._agent = await self.nats.bus("agent")

    async def start(self, **executor: Any) -> None:
        """`executor`: settings of the tool-executor that differ."""
        await self.prepare()
        await self.start_approval()
        await self.start_executor(**executor)

    async def start_approval(self) -> None:
        """Also in place of one that was stopped."""
        self.approval = await build_approval(self.approval_settings())
        await self.approval.start()

    async def start_executor(self, **changes: Any) -> None:
        """Also in place of one that was stopped."""
        self.executor = await build_executor(self.executor_settings(**changes), [*discover(), OddPack()])
        await self.executor.start()

    def _copy_policies(self) -> None:
        """The shipped policies, with the odd tools granted to every employee."""
        shutil.copytree(ROOT / "policies", self.policies)
        names = [tool.name for tool in OddPack().tools()]
        with edited(self.policies / "tables" / "grants" / "data.json") as grants:
            grants["employee"]["tools"] += names
        with edited(self.policies / "tables" / "tools" / "data.json") as tools:
            tools |= {name: {"domain": "odd", "risk": "low", "agreement": "none", "facts": []} for name in names}
            tools["odd_gated_write"]["agreement"] = "finance_plain"
        with edited(self.policies / "tables" / "limits" / "data.json") as limits:
            limits["open_proposals"] = {"each": 1000, "tools": {"change_order": 3}}
        with edited(self.policies / "tables" / "agreements" / "data.json") as agreements:
            plain = agreements["finance"]["obligations"] | {"challenge": False}
            agreements["finance_plain"] = {"asks": True, "reason": "finance_approves", "obligations": plain}

    async def stop(self) -> None:
        await self.executor.stop()
        await self.approval.stop()

    def approval_settings(self, **changes: Any) -> ApprovalSettings:
        return ApprovalSettings(
            **self._common("approval"),
            database_url=self.postgres.url("placet_approval"),
            effect_public_file=self.keys.public("effect"),
            approval_signing_key_file=self.keys.private("approval"),
            audit_signing_key_file=self.keys.private("audit"),
            **changes,
        )

    def executor_settings(self, **changes: Any) -> ExecutorSettings:
        return ExecutorSettings(
            **{**self._common("tool-executor"), **changes},
            database_url=self.postgres.url("placet_executor"),
            readonly_database_url=self.postgres.url("placet_reader"),
            approval_public_file=self.keys.public("approval"),
            effect_signing_key_file=self.keys.private("effect"),
        )

    def _common(self, user: str) -> Mapping[str, Any]:
        return {
            "nats_url": self.nats.url,
            "nats_seed_file": self.nats.seed_file(user),
            "policy_engine": "embedded",
            "policy_dir": self.policies,
            "grant_public_file": self.keys.public("grant"),
        }

    def _provision_settings(self) -> ProvisionSettings:
        passwords = self.postgres.passwords
        return ProvisionSettings(
            nats_url=self.nats.url,
            nats_seed_file=self.nats.seed_file("provision"),
            database_admin_url=self.postgres.server.admin_url,
            database_owner_password=passwords["placet_owner"],
            database_executor_password=passwords["placet_executor"],
            database_agent_password=passwords["placet_agent"],
            database_approval_password=passwords["placet_approval"],
            database_reader_password=passwords["placet_reader"],
            seed_demo=True,
        )

    def grant(self, person: str, *, tenant: str = "acme", run_id: str | None = None) -> str:
        purpose = Purpose.RUN if run_id else Purpose.REQUEST
        return self.mint.mint(
            tenant=tenant, actor=person, purpose=purpose, request_id=new_id("req"), lifetime_s=60, run_id=run_id
        )

    async def execute(
        self,
        person: str,
        tool: str,
        args: dict[str, Any],
        *,
        route: Route = Route.HTTP,
        run_id: str | None = None,
        call_id: str | None = None,
        tenant: str = "acme",
        request_id: str | None = None,
        grant: str | None = None,
        **extra: Any,
    ) -> ToolReply:
        command = ExecuteTool(
            grant=grant or self.grant(person, tenant=tenant, run_id=run_id),
            call_id=call_id or new_id("call"),
            tool=tool,
            args=args,
            route=route,
            budget=Budget(),
            **extra,
        )
        bus = self._agent if run_id else self._gateway
        with bound(RequestContext(request_id or new_id("req"), tenant, person)):
            return await RpcClient(bus).call("tool-executor", "execute-tool", command, ToolReply, tenant=tenant)

    async def proposal(self, person: str, proposal_id: str, *, tenant: str = "acme") -> ProposalView:
        command = GetProposal(grant=self.grant(person, tenant=tenant), proposal_id=proposal_id)
        reply = await self._ask("get-proposal", command, ProposalReply, tenant)
        return reply.proposal

    async def proposals(self, person: str, **filters: Any) -> ProposalPage:
        return await self._ask("list-proposals", ListProposals(grant=self.grant(person), **filters), ProposalPage)

    async def history(self, person: str, proposal_id: str) -> ProposalEvents:
        command = ListProposalEvents(grant=self.grant(person), proposal_id=proposal_id)
        return await self._ask("list-proposal-events", command, ProposalEvents)

    async def decide(
        self,
        person: str,
        proposal_id: str,
        decision: str = "approve",
        *,
        digest: str | None = None,
        answers: Acknowledgements | None = None,
        tenant: str = "acme",
        **extra: Any,
    ) -> DecisionResult:
        command = DecideProposal(
            grant=self.grant(person, tenant=tenant),
            proposal_id=proposal_id,
            decision=DecisionKind(decision),
            digest=digest,
            acknowledgements=answers,
            **extra,
        )
        with bound(RequestContext(new_id("req"), tenant, person)):
            return await self._ask("decide", command, DecisionResult, tenant)

    async def approve(self, person: str, proposal_id: str) -> DecisionResult:
        """Approve as shown, with the challenge answered in full."""
        view = await self.proposal(person, proposal_id)
        return await self.decide(person, proposal_id, digest=view.digest, answers=answers_to(view))

    async def audit(self, **filters: Any) -> AuditPage:
        return await self._ask("query-audit", QueryAudit(grant=self.grant("auditor"), **filters), AuditPage)

    async def settle(self, person: str, key: str, outcome: str, *, tenant: str = "acme") -> EffectState:
        grant = self.grant(person, tenant=tenant)
        command = SettleEffect(grant=grant, key=key, outcome=outcome, note="checked by hand")  # type: ignore[arg-type]
        with bound(RequestContext(new_id("req"), tenant, person)):
            return await RpcClient(self._gateway).call(
                "tool-executor", "settle-effect", command, EffectState, tenant=tenant
            )

    def effects_reader(self) -> EventReader:
        return EventReader(self.executor.bus, "EFFECTS")

    async def _ask(self, name: str, command: Any, reply: type[Any], tenant: str = "acme") -> Any:
        return await RpcClient(self._gateway).call("approval", name, command, reply, tenant=tenant)


@contextmanager
def edited(path: Path) -> Iterator[dict[str, Any]]:
    """A JSON table, written back when the block ends."""
    table = json.loads(path.read_text(encoding="utf-8"))
    yield table
    path.write_text(json.dumps(table), encoding="utf-8")


def answers_to(view: ProposalView, arguments: dict[str, Any] | None = None) -> Acknowledgements | None:
    """What a careful approver would type."""
    if view.challenge is None:
        return None
    values = arguments or view.arguments
    return Acknowledgements(
        resources=view.challenge.resources,
        blast_radius=True,
        rollback=True,
        retype=str(values[view.challenge.retype]),
    )
