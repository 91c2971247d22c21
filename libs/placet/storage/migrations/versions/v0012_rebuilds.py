"""Rebuilding the index from the originals: which versions are to be done, and switching one at once."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0012"
down_revision: str | None = "0011"
branch_labels: str | None = None
depends_on: str | None = None

TABLES = f"""
CREATE TABLE knowledge.rebuilds (
    tenant text NOT NULL,
    rebuild_id text NOT NULL,
    actor text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    PRIMARY KEY (tenant, rebuild_id)
);
CREATE UNIQUE INDEX one_rebuild_at_a_time ON knowledge.rebuilds (tenant) WHERE finished_at IS NULL;

CREATE TABLE knowledge.rebuild_items (
    tenant text NOT NULL,
    rebuild_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    urgent boolean NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'failed')),
    reason text,
    PRIMARY KEY (tenant, rebuild_id, document_id, version),
    FOREIGN KEY (tenant, rebuild_id) REFERENCES knowledge.rebuilds
);
CREATE INDEX rebuild_items_waiting ON knowledge.rebuild_items (tenant, rebuild_id, urgent DESC, document_id, version)
    WHERE state = 'waiting';
GRANT SELECT, INSERT, UPDATE ON knowledge.rebuilds, knowledge.rebuild_items TO {EXECUTOR};
"""

# Called in the transaction that adds the new chunks: nobody sees the version without any.
DROP_FOR_REBUILD = f"""
CREATE FUNCTION knowledge.drop_chunks_for_rebuild(of_tenant text, of_document text, of_version integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF of_tenant IS DISTINCT FROM knowledge.actor_tenant() THEN
        RAISE EXCEPTION 'not of this tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM FROM knowledge.rebuild_items i JOIN knowledge.rebuilds r USING (tenant, rebuild_id)
        WHERE i.tenant = of_tenant AND i.document_id = of_document AND i.version = of_version
          AND i.state = 'waiting' AND r.finished_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this version is not being rebuilt' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    DELETE FROM knowledge.chunk_vectors
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
    DELETE FROM knowledge.chunk_terms
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
    DELETE FROM knowledge.chunk_bodies
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
END $$;
REVOKE ALL ON FUNCTION knowledge.drop_chunks_for_rebuild FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge.drop_chunks_for_rebuild TO {EXECUTOR};
"""  # noqa: S608 (constants only)


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(DROP_FOR_REBUILD)


def downgrade() -> None:
    op.execute("DROP FUNCTION knowledge.drop_chunks_for_rebuild")
    op.execute("DROP TABLE knowledge.rebuild_items, knowledge.rebuilds")
