"""The listing of proposals: a projection of the approvals stream, rebuilt from it at will."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

TABLES = """
CREATE TABLE proposals.listing (
    tenant text NOT NULL,
    proposal_id text NOT NULL,
    created_at timestamptz NOT NULL,
    status text NOT NULL,
    tool text NOT NULL,
    requester text NOT NULL,
    approver_roles text[] NOT NULL,
    last_seq bigint NOT NULL,
    view jsonb NOT NULL,
    PRIMARY KEY (tenant, proposal_id)
);
CREATE INDEX listing_newest ON proposals.listing (tenant, created_at DESC, proposal_id DESC);
CREATE INDEX listing_by_status ON proposals.listing (tenant, status, created_at DESC, proposal_id DESC);
CREATE INDEX listing_by_requester ON proposals.listing (tenant, requester, created_at DESC, proposal_id DESC);
COMMENT ON COLUMN proposals.listing.last_seq IS 'stream sequence of the last event folded in: older news never wins';
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("DROP TABLE proposals.listing")
