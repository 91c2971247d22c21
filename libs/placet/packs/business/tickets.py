"""`create_ticket` and `request_approval`: work and questions put before people, both as rows in `tickets`."""

from __future__ import annotations

from sqlalchemy import insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from placet.contracts.proposals import Change
from placet.contracts.tools import Effect, RetryClass, Risk, Sensitivity
from placet.packs.business.access import Store
from placet.packs.business.arguments import CreateTicket, RequestApproval
from placet.packs.business.effects import effect_id, key_of, look_up, run_once
from placet.packs.business.results import ApprovalRequested, TicketCreated
from placet.packs.business.tables import tickets
from placet.toolkit import Hooks, Preview, ResourceView, ToolContext, ToolResult, ToolSpec, Verification

TICKET = "create_ticket"
REQUEST = "request_approval"
APPROVALS_TEAM = "approvals"


class CreateTicketTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=TICKET,
            title="Create a ticket",
            description="Open a ticket for a team: something people have to look at or do.",
            args=CreateTicket,
            result=TicketCreated,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.VISIBLE_TO_OTHERS,
            risk=Risk.HIGH,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            hooks=Hooks(preview=self.preview, verify=self.verify, lookup=self.lookup),
        )

    async def preview(self, ctx: ToolContext, args: CreateTicket, resource: ResourceView | None) -> Preview:
        return Preview(
            summary=f"Open a ticket of priority {args.priority} for team {args.team}: {args.title}",
            changes=(
                Change(field="title", after=args.title),
                Change(field="description", after=args.description),
            ),
            blast_radius=(f"Everybody in team {args.team} sees it under the name of {ctx.actor.id}.",),
        )

    async def handle(self, ctx: ToolContext, args: CreateTicket) -> ToolResult:
        async def work(connection: AsyncConnection) -> TicketCreated:
            ticket_id = await _open(connection, ctx, "T", args)
            return TicketCreated(ticket_id=ticket_id, team=args.team, state="open")

        return await run_once(self._store, ctx, TICKET, args, work)

    async def lookup(self, ctx: ToolContext, args: CreateTicket) -> ToolResult | None:
        return await look_up(self._store, ctx, TICKET)

    async def verify(self, ctx: ToolContext, args: CreateTicket, result: ToolResult) -> Verification:
        return await _read_back(self._store, ctx, result.data["ticket_id"], args)


class RequestApprovalTool:
    def __init__(self, store: Store) -> None:
        self._store = store

    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=REQUEST,
            title="Ask people for an approval",
            description=(
                "Put a question before the people who approve things, when no other tool fits. "
                "The answer comes from them, later; nothing else happens."
            ),
            args=RequestApproval,
            result=ApprovalRequested,
            handler=self.handle,
            sensitivity=Sensitivity.WRITE,
            effect=Effect.VISIBLE_TO_OTHERS,
            risk=Risk.HIGH,
            retry=RetryClass.KEYED,
            needs_idempotency_key=True,
            hooks=Hooks(preview=self.preview, verify=self.verify, lookup=self.lookup),
        )

    async def preview(self, ctx: ToolContext, args: RequestApproval, resource: ResourceView | None) -> Preview:
        return Preview(
            summary=f"Ask the team {APPROVALS_TEAM}: {args.subject}",
            changes=(Change(field="subject", after=args.subject), Change(field="details", after=args.details)),
            blast_radius=(f"Everybody in team {APPROVALS_TEAM} sees it under the name of {ctx.actor.id}.",),
        )

    async def handle(self, ctx: ToolContext, args: RequestApproval) -> ToolResult:
        async def work(connection: AsyncConnection) -> ApprovalRequested:
            request_id = await _open(connection, ctx, "Q", _as_ticket(args))
            return ApprovalRequested(request_id=request_id, subject=args.subject, state="open")

        return await run_once(self._store, ctx, REQUEST, args, work)

    async def lookup(self, ctx: ToolContext, args: RequestApproval) -> ToolResult | None:
        return await look_up(self._store, ctx, REQUEST)

    async def verify(self, ctx: ToolContext, args: RequestApproval, result: ToolResult) -> Verification:
        return await _read_back(self._store, ctx, result.data["request_id"], _as_ticket(args))


def _as_ticket(args: RequestApproval) -> CreateTicket:
    return CreateTicket(title=args.subject, team=APPROVALS_TEAM, description=args.details)


async def _open(connection: AsyncConnection, ctx: ToolContext, prefix: str, ticket: CreateTicket) -> str:
    ticket_id = effect_id(prefix, ctx)
    row = {"tenant": ctx.tenant, "ticket_id": ticket_id, "state": "open", **ticket.model_dump()}
    key = {"idempotency_key": key_of(ctx), "created_by": ctx.actor.id, "created_at": ctx.now}
    await connection.execute(insert(tickets).values(**row, **key))
    return ticket_id


async def _read_back(store: Store, ctx: ToolContext, ticket_id: str, ticket: CreateTicket) -> Verification:
    columns = tickets.c
    mine = (columns.tenant == ctx.tenant) & (columns.idempotency_key == key_of(ctx))
    query = select(columns.ticket_id, columns.title, columns.team, columns.priority, columns.description).where(mine)
    async with store.database.transaction(read_only=True) as connection:
        row = (await connection.execute(query)).one_or_none()
    if row is None:
        return Verification(ok=False, observed={"ticket": None})
    expected = (ticket_id, ticket.title, ticket.team, ticket.priority, ticket.description)
    return Verification(ok=tuple(row) == expected, observed={"ticket_id": row.ticket_id, "team": row.team})
