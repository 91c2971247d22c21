"""The life of a document: uploads in parts, versions that are read in steps, and lists that may change."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

# What was there before was taken in whole.
VERSIONS = """
ALTER TABLE knowledge.versions
    ADD COLUMN state text NOT NULL DEFAULT 'ready'
        CHECK (state IN ('received', 'reading', 'indexing', 'ready', 'failed')),
    ADD COLUMN chunks_done integer NOT NULL DEFAULT 0,
    ADD COLUMN plan text,
    ADD COLUMN title text,
    ADD COLUMN failure text,
    ADD COLUMN failure_detail text,
    ADD COLUMN touched_at timestamptz NOT NULL DEFAULT now(),
    ADD CONSTRAINT only_ready_is_published CHECK (status <> 'published' OR state = 'ready'),
    ADD CONSTRAINT failed_says_why CHECK ((state = 'failed') = (failure IS NOT NULL));
UPDATE knowledge.versions v SET chunks_done = v.chunk_count, title = d.title
    FROM knowledge.documents d WHERE d.tenant = v.tenant AND d.document_id = v.document_id;
ALTER TABLE knowledge.versions ALTER COLUMN title SET NOT NULL;
COMMENT ON COLUMN knowledge.versions.title IS 'becomes the title of the document when this version is published';
CREATE INDEX versions_unfinished ON knowledge.versions (touched_at) WHERE state IN ('received', 'reading', 'indexing');
COMMENT ON COLUMN knowledge.versions.plan IS
    'digest of the chunks this version is read into: an interrupted reading goes on only with the very same chunks';
"""

# `parts` are the sequences of the stored parts in the object store's stream, in order.
UPLOADS = f"""
CREATE TABLE knowledge.uploads (
    tenant text NOT NULL,
    upload_id text NOT NULL,
    actor text NOT NULL,
    base_id text NOT NULL,
    document_id text NOT NULL,
    is_new boolean NOT NULL,
    title text NOT NULL,
    filename text NOT NULL,
    trusted boolean NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    sha256 text NOT NULL,
    parts bigint[] NOT NULL DEFAULT '{{}}',
    version integer,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, upload_id)
);
CREATE INDEX uploads_by_age ON knowledge.uploads (created_at);
GRANT SELECT, INSERT, UPDATE, DELETE ON knowledge.uploads TO {EXECUTOR};
"""

# The executor may not delete chunks; through this it drops those of a version that is not ready, and no others.
DROP_UNREADY = f"""
CREATE FUNCTION knowledge.drop_unready_chunks(of_tenant text, of_document text, of_version integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF of_tenant IS DISTINCT FROM knowledge.actor_tenant() THEN
        RAISE EXCEPTION 'not of this tenant' USING ERRCODE = 'insufficient_privilege';
    END IF;
    PERFORM FROM knowledge.versions WHERE tenant = of_tenant AND document_id = of_document AND version = of_version
        AND state IN ('received', 'reading', 'indexing', 'failed') FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this version is ready' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    DELETE FROM knowledge.chunk_vectors
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
    DELETE FROM knowledge.chunk_terms
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
    DELETE FROM knowledge.chunk_bodies
        WHERE tenant = of_tenant AND document_id = of_document AND version = of_version;
END $$;
REVOKE ALL ON FUNCTION knowledge.drop_unready_chunks FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge.drop_unready_chunks TO {EXECUTOR};
"""  # noqa: S608 (constants only)


def upgrade() -> None:
    for part in (VERSIONS, UPLOADS, DROP_UNREADY):
        op.execute(part)


def downgrade() -> None:
    op.execute("DROP FUNCTION knowledge.drop_unready_chunks")
    op.execute("DROP TABLE knowledge.uploads")
    op.execute("""
        ALTER TABLE knowledge.versions DROP COLUMN state, DROP COLUMN chunks_done, DROP COLUMN plan, DROP COLUMN title,
            DROP COLUMN failure, DROP COLUMN failure_detail, DROP COLUMN touched_at
    """)
