"""Refunds that a payment provider pays: reserved first, then paid, declined or cancelled."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.execute(
        "ALTER TABLE business.refunds"
        " ADD COLUMN state text NOT NULL DEFAULT 'paid'"
        " CHECK (state IN ('pending', 'paid', 'declined', 'cancelled')),"
        " ADD COLUMN provider_ref text"
    )
    op.execute(
        "COMMENT ON COLUMN business.refunds.state IS"
        " 'pending and paid count against what is refundable; a refund without a provider is paid at once'"
    )
    op.execute(f"GRANT UPDATE (state, provider_ref) ON business.refunds TO {EXECUTOR}")


def downgrade() -> None:
    op.execute("ALTER TABLE business.refunds DROP COLUMN state, DROP COLUMN provider_ref")
