"""The views that a model's queries may read belong to a role of their own, which can do nothing else."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR, READER

revision = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.execute(f"GRANT USAGE ON SCHEMA business_read TO {READER}")
    op.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA business_read TO {READER}")
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA business_read FROM {EXECUTOR}")
    op.execute(f"REVOKE USAGE ON SCHEMA business_read FROM {EXECUTOR}")


def downgrade() -> None:
    op.execute(f"GRANT USAGE ON SCHEMA business_read TO {EXECUTOR}")
    op.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA business_read TO {EXECUTOR}")
    op.execute(f"REVOKE ALL ON ALL TABLES IN SCHEMA business_read FROM {READER}")
    op.execute(f"REVOKE USAGE ON SCHEMA business_read FROM {READER}")
