"""`add_order_note`: a line beside the order for whoever looks at it next."""

from __future__ import annotations

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business.access import Store
from placet.packs.business.arguments import AddOrderNote
from placet.packs.business.effects import effect_id, key_of, look_up, run_once
from placet.packs.business.orders import lock_order, raise_version, view_order
from placet.packs.business.results import NoteAdded
from placet.packs.business.tables import order_notes
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

NAME = "add_order_note"


class AddOrderNoteTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=NAME,
            title="Add a note to an order",
            description="Add an internal note to an order. The customer does not see it.",
            args=AddOrderNote,
            result=NoteAdded,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.REVERSIBLE,
            risk=Risk.HIGH,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            hooks=Hooks(resource=self.resource, preview=self.preview, verify=self.verify, lookup=self.lookup),
        )

    async def resource(self, ctx: ToolContext, args: AddOrderNote) -> ResourceView:
        return await view_order(self._store, ctx, args.order_id)

    async def preview(self, ctx: ToolContext, args: AddOrderNote, resource: ResourceView | None) -> Preview:
        return Preview(
            summary=f"Add an internal note to order {args.order_id}.",
            changes=(Change(field="notes", after=args.note),),
            touched=(args.order_id,),
            blast_radius=("Colleagues who open this order read the note.",),
        )

    async def handle(self, ctx: ToolContext, args: AddOrderNote) -> ToolResult:
        async def work(connection: AsyncConnection) -> NoteAdded:
            order = await lock_order(connection, ctx, args.order_id)
            note_id = effect_id("N", ctx)
            row = {"tenant": ctx.tenant, "note_id": note_id, "order_id": order.order_id, "body": args.note}
            key = {"idempotency_key": key_of(ctx), "created_by": ctx.actor.id, "created_at": ctx.now}
            await connection.execute(insert(order_notes).values(**row, **key))
            version = await raise_version(connection, ctx.tenant, order, ctx.now)
            return NoteAdded(note_id=note_id, order_id=order.order_id, order_version=version)

        return await run_once(self._store, ctx, NAME, args, work)

    async def lookup(self, ctx: ToolContext, args: AddOrderNote) -> ToolResult | None:
        return await look_up(self._store, ctx, NAME)

    async def verify(self, ctx: ToolContext, args: AddOrderNote, result: ToolResult) -> Verification:
        columns = order_notes.c
        mine = (columns.tenant == ctx.tenant) & (columns.idempotency_key == key_of(ctx))
        query = select(columns.note_id, columns.order_id, columns.body).where(mine)
        async with self._store.database.transaction(read_only=True) as connection:
            row = (await connection.execute(query)).one_or_none()
        if row is None:
            return Verification(ok=False, observed={"note": None})
        found = (row.note_id, row.order_id, row.body)
        expected = (result.data["note_id"], args.order_id, args.note)
        return Verification(ok=found == expected, observed={"note_id": row.note_id, "order_id": row.order_id})
