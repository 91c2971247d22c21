"""The demo world on a real PostgreSQL with both packs opened on it, and calls made the way the executor makes them."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import text

from placet.contracts.errors import PlacetError
from placet.packs.business import BusinessPack
from placet.packs.knowledge import KnowledgePack
from placet.storage import OWNER, READER
from placet.storage.seed import seed_business
from placet.testkit.postgres import PostgresRig
from placet.toolkit import Actor, HandOver, PackEnvironment, Preview, ResourceView, ToolContext, ToolResult, ToolSpec

SEEDS = Path(__file__).resolve().parents[2] / "seeds"
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


def actor(person: str, *roles: str, tenant: str = "acme", team: str = "support", **changes: Any) -> Actor:
    facts: dict[str, Any] = {"active": True, "teams": frozenset({team}), "clearance": 1}
    return Actor(tenant=tenant, id=person, roles=frozenset({"employee", *roles}), **(facts | changes))


ALICE = actor("alice", "customer_support")
BOB = actor("bob", "rnd", team="rnd")
CAROL = actor("carol", "knowledge_admin", team="knowledge")
DAVE = actor("dave", "finance_approver", team="finance")
FRANK = actor("frank", "c_level", team="executive", clearance=3)
GRACE = actor("grace", "customer_support", team="key-accounts")
MIKE = actor("mike", "customer_support", active=False)
GLOBEX_ALICE = actor("alice", "customer_support", tenant="globex")


async def outcome(call: Awaitable[Any]) -> str:
    """`ok`, or the code with which the call ended."""
    try:
        await call
    except PlacetError as error:
        return error.code.value
    return "ok"


async def policy_scope(reader: Actor) -> dict[str, Any]:
    """What the shipped policy answers: everybody active reads, by the facts of the directory."""
    if not reader.active:
        return {"visible": False, "reasons": ["subject_inactive"]}
    principals = {"tenant": reader.tenant, "user": reader.id, "roles": sorted(reader.roles)}
    return {
        "visible": True,
        "reasons": [],
        "principals": {**principals, "teams": sorted(reader.teams), "clearance": reader.clearance},
    }


class PackWorld:
    """Tools by name. `now` is the clock of the calls; `orders` get ids of their own, so tests do not meet."""

    def __init__(self, rig: PostgresRig) -> None:
        self.rig = rig
        self.packs = (BusinessPack(), KnowledgePack())
        self.tools: dict[str, ToolSpec] = {tool.name: tool for pack in self.packs for tool in pack.tools()}
        self.now = NOON
        self._numbers = itertools.count(1)

    async def open(self, settings: dict[str, str] | None = None) -> None:
        environment = PackEnvironment(
            self.rig.url(), self.rig.originals, policy_scope, settings or {}, self.rig.url(READER)
        )
        for pack in self.packs:
            await pack.open(environment)

    async def close(self) -> None:
        for pack in self.packs:
            await pack.close()

    def key(self) -> str:
        return f"key-{next(self._numbers)}"

    def context(self, who: Actor, key: str | None = None, version: str | None = None) -> ToolContext:
        return ToolContext(
            actor=who, call_id="call-1", request_id="req-1", now=self.now, idempotency_key=key, resource_version=version
        )

    async def resource(self, who: Actor, tool: str, /, **args: Any) -> ResourceView:
        spec, context, model = self._prepared(who, tool, args)
        assert spec.hooks.resource is not None
        return await spec.hooks.resource(context, model)

    async def preview(self, who: Actor, tool: str, /, **args: Any) -> Preview:
        spec, context, model = self._prepared(who, tool, args)
        assert spec.hooks.preview is not None
        return await spec.hooks.preview(context, model, None)

    async def validate(self, who: Actor, tool: str, /, **args: Any) -> None:
        spec, context, model = self._prepared(who, tool, args)
        assert spec.hooks.validate is not None
        await spec.hooks.validate(context, model, None)

    async def lookup(self, who: Actor, tool: str, key: str, /, **args: Any) -> ToolResult | None:
        spec, context, model = self._prepared(who, tool, args, key)
        assert spec.hooks.lookup is not None
        return await spec.hooks.lookup(context, model)

    async def verify(self, who: Actor, tool: str, key: str, result: ToolResult, /, **args: Any) -> bool:
        spec, context, model = self._prepared(who, tool, args, key)
        assert spec.hooks.verify is not None
        return (await spec.hooks.verify(context, model, result)).ok

    async def run(
        self, who: Actor, tool: str, key: str | None = None, signed: str | None = None, /, **args: Any
    ) -> Any:
        """The bare handler: no hook has looked at the call before. `signed`: the resource version it was decided on."""
        spec, context, model = self._prepared(who, tool, args, key)
        result = await spec.handler(replace(context, resource_version=signed), model)
        if isinstance(result, HandOver):
            return result
        spec.result.model_validate(result.data)  # what is answered is what was declared
        return result.data

    async def order(self, paid: str = "299.00", state: str = "delivered", customer: str = "C1001") -> str:
        """A new order of an acme customer (C1001: served by alice and team support)."""
        order_id = f"T{next(self._numbers):05d}"
        await self.sql(
            "INSERT INTO business.orders (tenant, order_id, customer_id, state, currency, paid_amount, item,"
            " shipping_address) VALUES ('acme', :id, :customer, :state, 'CNY', :paid, 'Lamp', 'Shanghai')",
            id=order_id,
            customer=customer,
            state=state,
            paid=paid,
        )
        return order_id

    async def sql(self, statement: str, **values: Any) -> Any:
        """As the owner, past all tools: to prepare the world and to look at what really happened."""
        async with self._owner.begin() as connection:
            result = await connection.execute(text(statement), values)
            return result.all() if result.returns_rows else None

    def next_day(self) -> None:
        self.now += timedelta(days=1)

    @property
    def _owner(self) -> Any:
        if not hasattr(self, "_owner_database"):
            self._owner_database = self.rig.database(OWNER)
        return self._owner_database.engine

    def _prepared(
        self, who: Actor, tool: str, args: dict[str, Any], key: str | None = None
    ) -> tuple[ToolSpec, ToolContext, Any]:
        spec = self.tools[tool]
        return spec, self.context(who, key), spec.args.model_validate(args)


@asynccontextmanager
async def pack_world(*, documents: bool = False) -> AsyncIterator[PackWorld]:
    """A server of its own with the demo world; with `documents`, the knowledge too (3 s more)."""
    directory = Path(tempfile.mkdtemp(prefix="placet-packs-"))
    rig = PostgresRig(directory)
    world = PackWorld(rig)
    try:
        await rig.start()
        if documents:
            await rig.seed(SEEDS)
        else:
            await seed_business(rig.database(OWNER).engine, SEEDS / "business")
        await world.open()
        yield world
    finally:
        await world.close()
        await rig.close()
        shutil.rmtree(directory, ignore_errors=True)
