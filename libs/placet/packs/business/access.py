"""Whose data a call may touch, stated once as a condition that goes into the statement itself."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, Text, and_, any_, cast, false, literal, or_, true
from sqlalchemy.dialects.postgresql import ARRAY

from placet.contracts.errors import ErrorCode, PlacetError
from placet.packs.business import tables
from placet.packs.business.payments import Payments
from placet.storage import Database
from placet.toolkit import Actor

SEES_WHOLE_TENANT = frozenset({"finance_approver"})


class Store:
    """The database of an opened pack; before `open` and after `close` every call answers `dependency_unavailable`.

    `payments` is None where refunds are rows of this house and nothing else.
    """

    def __init__(self) -> None:
        self._database: Database | None = None
        self._reader: Database | None = None
        self.payments: Payments | None = None

    @property
    def database(self) -> Database:
        if self._database is None:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The business tools are not open.")
        return self._database

    @property
    def reader(self) -> Database:
        """The connection of the role that can only read, for queries that a model wrote."""
        if self._reader is None:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "There is no read-only connection here.")
        return self._reader

    def open(self, url: str, readonly_url: str, settings: Mapping[str, str]) -> None:
        self.payments = Payments.open(settings)
        self._database = Database.open(url, application="placet-business")
        if readonly_url:
            self._reader = Database.open(readonly_url, pool_size=1, overflow=4, application="placet-reader")

    async def close(self) -> None:
        payments, self.payments = self.payments, None
        if payments is not None:
            await payments.close()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()
        database, self._database = self._database, None
        if database is not None:
            await database.close()


def of_tenant(actor: Actor) -> ColumnElement[bool]:
    """Customers of the actor's tenant; nobody's for a person who is no longer active."""
    return tables.customers.c.tenant == actor.tenant if actor.active else false()


def served_by(actor: Actor) -> ColumnElement[bool]:
    """Customers whom the actor serves in person or through a team: what a write needs."""
    teams = cast(sorted(actor.teams), ARRAY(Text))
    columns = tables.customers.c
    serves = or_(literal(actor.id) == any_(columns.served_by), columns.served_by_teams.op("&&")(teams))
    return and_(of_tenant(actor), serves)


def visible_to(actor: Actor) -> ColumnElement[bool]:
    """Customers whom the actor may see: served ones, and all of the tenant for those who judge its money."""
    return of_tenant(actor) if actor.roles & SEES_WHOLE_TENANT else served_by(actor)


def tickets_visible_to(actor: Actor) -> ColumnElement[bool]:
    """Tickets the actor wrote or whose team the actor belongs to."""
    columns = tables.tickets.c
    if not actor.active:
        return false()
    whole = true() if actor.roles & SEES_WHOLE_TENANT else false()
    concerned = or_(whole, columns.created_by == actor.id, columns.team.in_(sorted(actor.teams)))
    return and_(columns.tenant == actor.tenant, concerned)
