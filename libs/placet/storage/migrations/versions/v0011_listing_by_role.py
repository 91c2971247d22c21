"""A page of the listing costs the same for one who may decide everything and for one who sees next to nothing."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision: str | None = "0010"
branch_labels: str | None = None
depends_on: str | None = None

# Nearly every proposal is decided by one role or two; what has more is few, and filtered.
INDEXES = """
DROP INDEX proposals.listing_newest, proposals.listing_by_status, proposals.listing_by_requester;
CREATE INDEX listing_by_requester ON proposals.listing
    (tenant, requester, status, created_at DESC, proposal_id DESC);
CREATE INDEX listing_by_role ON proposals.listing
    (tenant, (approver_roles[1]), status, created_at DESC, proposal_id DESC);
CREATE INDEX listing_by_second_role ON proposals.listing
    (tenant, (approver_roles[2]), status, created_at DESC, proposal_id DESC) WHERE cardinality(approver_roles) >= 2;
CREATE INDEX listing_by_many_roles ON proposals.listing
    (tenant, status, created_at DESC, proposal_id DESC) WHERE cardinality(approver_roles) >= 3;
"""


def upgrade() -> None:
    op.execute(INDEXES)


def downgrade() -> None:
    op.execute("""
        DROP INDEX proposals.listing_by_requester, proposals.listing_by_role, proposals.listing_by_second_role,
            proposals.listing_by_many_roles;
        CREATE INDEX listing_newest ON proposals.listing (tenant, created_at DESC, proposal_id DESC);
        CREATE INDEX listing_by_status ON proposals.listing (tenant, status, created_at DESC, proposal_id DESC);
        CREATE INDEX listing_by_requester ON proposals.listing (tenant, requester, created_at DESC, proposal_id DESC);
    """)
