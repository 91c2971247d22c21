"""Unpublished texts that people have agreed to show to somebody."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0015"
down_revision: str | None = "0014"
branch_labels: str | None = None
depends_on: str | None = None

RELEASES = f"""
CREATE TABLE knowledge.releases (
    tenant text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    actor text NOT NULL,
    released_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, document_id, version, actor),
    FOREIGN KEY (tenant, document_id, version) REFERENCES knowledge.versions
);
GRANT SELECT, INSERT, UPDATE ON knowledge.releases TO {EXECUTOR};
"""


def upgrade() -> None:
    op.execute(RELEASES)


def downgrade() -> None:
    op.execute("DROP TABLE knowledge.releases")
