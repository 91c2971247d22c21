"""Which pending proposals a change of policy or of a person's rights concerns."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

COLUMNS = """
ALTER TABLE proposals.listing ADD COLUMN policy_revision text NOT NULL DEFAULT '';
ALTER TABLE proposals.listing ADD COLUMN approved_by text[] NOT NULL DEFAULT '{}';
UPDATE proposals.listing SET
    policy_revision = view->>'policy_revision',
    approved_by = ARRAY(SELECT given->>'by' FROM jsonb_array_elements(view->'approvals'->'given') AS given);
CREATE INDEX listing_pending ON proposals.listing (tenant, proposal_id, policy_revision) WHERE status = 'pending';
CREATE INDEX listing_pending_requester ON proposals.listing (tenant, requester, proposal_id) WHERE status = 'pending';
CREATE INDEX listing_pending_approved ON proposals.listing USING gin (approved_by) WHERE status = 'pending';
"""


def upgrade() -> None:
    op.execute(COLUMNS)


def downgrade() -> None:
    op.execute("""
        DROP INDEX proposals.listing_pending, proposals.listing_pending_requester, proposals.listing_pending_approved;
        ALTER TABLE proposals.listing DROP COLUMN policy_revision, DROP COLUMN approved_by;
    """)
