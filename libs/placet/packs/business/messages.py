"""`send_message`: a text to a customer, put into the outbox from which it is delivered."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.errors import ErrorCode, PlacetError, not_found
from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business import access
from placet.packs.business.access import Store
from placet.packs.business.arguments import SendMessage
from placet.packs.business.effects import effect_id, key_of, look_up, run_once
from placet.packs.business.results import MessageSent
from placet.packs.business.tables import customers, messages
from placet.toolkit import Actor, Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

NAME = "send_message"
_SUBJECT_CHARS = 80


@dataclass(frozen=True, slots=True)
class Customer:
    customer_id: str
    name: str
    email: str
    phone: str
    servers: tuple[str, ...]

    @property
    def version(self) -> str:
        """Who would get the message: another address is another version, and needs another decision."""
        text = "\0".join((self.customer_id, self.name, self.email, self.phone))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class SendMessageTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Send a message to a customer",
            description="Send a text to a customer. It cannot be taken back.",
            args=SendMessage,
            result=MessageSent,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.VISIBLE_TO_OTHERS,
            risk=Risk.HIGH,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            open_world=True,
            hooks=Hooks(resource=self.resource, preview=self.preview, verify=self.verify, lookup=self.lookup),
        )

    async def resource(self, ctx: ToolContext, args: SendMessage) -> ResourceView:
        async with self._store.database.transaction(read_only=True) as connection:
            customer = await _served_customer(connection, ctx.actor, args.customer_id)
        facts = {"tenant": ctx.tenant, "served_by": list(customer.servers)}
        return ResourceView(
            type="customer", id=customer.customer_id, version=customer.version, tenant=ctx.tenant, facts=facts
        )

    async def preview(self, ctx: ToolContext, args: SendMessage, resource: ResourceView | None) -> Preview:
        return Preview(
            summary=f"Send a message of {len(args.text)} characters to customer {args.customer_id}.",
            changes=(Change(field="message", after=args.text),),
            touched=(args.customer_id,),
            blast_radius=(f"Customer {args.customer_id} reads it in the name of the company.",),
        )

    async def handle(self, ctx: ToolContext, args: SendMessage) -> ToolResult:
        async def work(connection: AsyncConnection) -> MessageSent:
            customer = await _served_customer(connection, ctx.actor, args.customer_id)
            expected = ctx.resource_version
            if expected is not None and expected != customer.version:
                raise PlacetError(ErrorCode.CONFLICT, "The customer's contact changed meanwhile.")
            message_id = effect_id("M", ctx)
            await connection.execute(insert(messages).values(**_row(ctx, args, message_id)))
            return MessageSent(message_id=message_id, customer_id=customer.customer_id)

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: SendMessage) -> ToolResult | None:
        return await look_up(self._store, ctx, NAME)

    async def verify(self, ctx: ToolContext, args: SendMessage, result: ToolResult) -> Verification:
        columns = messages.c
        mine = (columns.tenant == ctx.tenant) & (columns.idempotency_key == key_of(ctx))
        query = select(columns.message_id, columns.recipient, columns.body).where(mine)
        async with self._store.database.transaction(read_only=True) as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return Verification(ok=False, observed={"message": None})
        expected = (result.data["message_id"], args.customer_id, args.text)
        observed = {"message_id": row.message_id, "recipient": row.recipient}
        return Verification(ok=tuple(row) == expected, observed=observed)


def _row(ctx: ToolContext, args: SendMessage, message_id: str) -> dict[str, object]:
    return {
        "tenant": ctx.tenant,
        "message_id": message_id,
        "recipient": args.customer_id,
        "subject": args.text.strip().splitlines()[0][:_SUBJECT_CHARS],
        "body": args.text,
        "idempotency_key": key_of(ctx),
        "created_by": ctx.actor.id,
        "created_at": ctx.now,
    }


async def _served_customer(connection: AsyncConnection, actor: Actor, customer_id: str) -> Customer:
    """Raises `not_found` for absent, foreign and unserved alike (I3)."""
    columns = customers.c
    served = select(customers).where(columns.customer_id == customer_id, access.served_by(actor))
    row = (await connection.execute(served)).one_or_none()
    if row is None:
        raise not_found()
    servers = (*row.served_by, *row.served_by_teams)
    return Customer(row.customer_id, row.name, row.email, row.phone, servers)
