"""The listing of proposals in PostgreSQL: pages by keyset, so that a page of a million costs what one of ten does."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import ARRAY, Text, TextClause, bindparam, text
from sqlalchemy.engine import Row

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.proposals import ProposalStatus, ProposalView
from placet.storage import Database
from services.approval.adapters.group_writer import GroupWriter
from services.approval.domain.state import Proposal
from services.approval.ports import Place, ProposalQuery, ProposalRow

# Many rows at once, as one JSON document: a statement's cost hardly grows with their number.
_STORE = text("""
    INSERT INTO proposals.listing
        (tenant, proposal_id, created_at, status, tool, requester, approver_roles, approved_by, policy_revision,
         last_seq, view)
    SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS row (
        tenant text, proposal_id text, created_at timestamptz, status text, tool text, requester text,
        approver_roles text[], approved_by text[], policy_revision text, last_seq bigint, view jsonb)
    ON CONFLICT (tenant, proposal_id) DO UPDATE SET
        status = excluded.status, approver_roles = excluded.approver_roles, approved_by = excluded.approved_by,
        policy_revision = excluded.policy_revision,
        last_seq = excluded.last_seq, view = excluded.view
    WHERE listing.last_seq <= excluded.last_seq
""")

_PENDING_OF = text("""
    SELECT tenant, proposal_id FROM proposals.listing
    WHERE tenant = :tenant AND status = 'pending' AND (requester = :person OR approved_by @> ARRAY[:person])
        AND proposal_id > :after
    ORDER BY proposal_id LIMIT :limit
""")

_PENDING_UNDER_OTHER = text("""
    SELECT tenant, proposal_id FROM proposals.listing
    WHERE status = 'pending' AND policy_revision <> :revision AND (tenant, proposal_id) > (:tenant, :after)
    ORDER BY tenant, proposal_id LIMIT :limit
""")

# Each part walks one index from the newest on and ends at the page's length, so that a page costs the same however
# much there is that the viewer may not see.
_PART = """
    SELECT part.* FROM unnest(:statuses) AS wanted(status) {roles}
    CROSS JOIN LATERAL (
        SELECT created_at, proposal_id FROM proposals.listing
        WHERE tenant = :tenant AND status = wanted.status AND {visible} {filters}
        ORDER BY created_at DESC, proposal_id DESC LIMIT :limit
    ) part
"""
_EACH_ROLE = "CROSS JOIN unnest(:roles) AS holds(role)"
_VISIBLE = (
    ("", "requester = :viewer"),
    (_EACH_ROLE, "approver_roles[1] = holds.role"),
    (_EACH_ROLE, "cardinality(approver_roles) >= 2 AND approver_roles[2] = holds.role"),
    ("", "cardinality(approver_roles) >= 3 AND approver_roles && :roles"),
)
_PAGE = """
    SELECT listing.view, listing.created_at, listing.proposal_id
    FROM ({parts}) found JOIN proposals.listing ON listing.tenant = :tenant AND listing.proposal_id = found.proposal_id
    ORDER BY listing.created_at DESC, listing.proposal_id DESC LIMIT :limit
"""
# A proposal is stored and surfaced, or decided and ended, within so long: one row to write instead of two.
_GATHER_S = 0.02
_STATUSES = (ProposalStatus.PENDING, ProposalStatus.APPROVED, ProposalStatus.COMPLETED)


class PostgresListing:
    """Implements `ProposalIndex`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writes: GroupWriter[Proposal] = GroupWriter(self._write, _later, gather_s=_GATHER_S)

    async def store(self, tenant: str, proposal: Proposal) -> None:
        """Returns when it is written, together with whatever else came while the write before it was under way."""
        await self._writes.put((tenant, proposal.id), proposal)

    async def _write(self, proposals: Sequence[Proposal]) -> None:
        document = orjson.dumps([_columns(proposal) for proposal in proposals]).decode()
        async with self._database.transaction() as connection:
            await connection.execute(_STORE, {"rows": document})

    async def page(self, query: ProposalQuery) -> list[ProposalRow]:
        values: dict[str, object] = {
            "tenant": query.tenant,
            "viewer": query.viewer,
            "roles": list(query.viewer_roles),
            "statuses": [status.value for status in ([query.status] if query.status else _STATUSES)],
            "limit": query.limit,
        }
        filters = []
        if query.tool:
            filters.append("AND tool = :tool")
            values["tool"] = query.tool
        if query.cursor:
            filters.append("AND (created_at, proposal_id) < (:before, :before_id)")
            values["before"], values["before_id"] = _read_cursor(query.cursor)
        parts = (_PART.format(roles=roles, visible=seen, filters=" ".join(filters)) for roles, seen in _VISIBLE)
        statement = text(_PAGE.format(parts=" UNION ".join(parts))).bindparams(
            bindparam("roles", type_=ARRAY(Text)), bindparam("statuses", type_=ARRAY(Text))
        )
        async with self._database.transaction(read_only=True) as connection:
            rows = (await connection.execute(statement, values)).all()
        return [_row(row) for row in rows]

    async def pending_of(self, tenant: str, person: str, after: Place, limit: int) -> list[Place]:
        values = {"tenant": tenant, "person": person, "after": after.proposal_id, "limit": limit}
        return await self._places(_PENDING_OF, values)

    async def pending_under_other(self, revision: str, after: Place, limit: int) -> list[Place]:
        values = {"revision": revision, "tenant": after.tenant, "after": after.proposal_id, "limit": limit}
        return await self._places(_PENDING_UNDER_OTHER, values)

    async def _places(self, statement: TextClause, values: dict[str, object]) -> list[Place]:
        async with self._database.transaction(read_only=True) as connection:
            rows = (await connection.execute(statement, values)).all()
        return [Place(tenant, proposal_id) for tenant, proposal_id in rows]

    async def ready(self) -> bool:
        await self._database.ping()
        return True


def _later(one: Proposal, other: Proposal) -> Proposal:
    return one if one.last_seq > other.last_seq else other


def _columns(proposal: Proposal) -> dict[str, Any]:
    view = proposal.view()
    return {
        "tenant": proposal.origin.tenant,
        "proposal_id": proposal.id,
        "created_at": proposal.created_at,
        "status": view.status.value,
        "tool": view.tool,
        "requester": view.requester,
        "approver_roles": proposal.packet.obligations.approver_roles,
        "approved_by": proposal.approver_ids,
        "policy_revision": proposal.packet.policy_revision,
        "last_seq": proposal.last_seq,
        "view": orjson.Fragment(view.model_dump_json()),
    }


def _row(row: Row[Any]) -> ProposalRow:
    view, created_at, proposal_id = tuple(row)
    cursor = base64.urlsafe_b64encode(f"{created_at.isoformat()}|{proposal_id}".encode()).decode()
    return ProposalRow(ProposalView.model_validate(view), cursor)


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    try:
        moment, _, proposal_id = base64.urlsafe_b64decode(cursor).decode().partition("|")
        return datetime.fromisoformat(moment), proposal_id
    except (binascii.Error, ValueError) as error:
        raise PlacetError(ErrorCode.INVALID_REQUEST, "This cursor did not come from a page of this list.") from error
