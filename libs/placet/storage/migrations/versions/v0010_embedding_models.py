"""Which embedding model search uses, which one is being prepared, and how the preparing reads what it embeds."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0010"
down_revision: str | None = "0009"
branch_labels: str | None = None
depends_on: str | None = None

MODELS = """
CREATE TABLE knowledge.embedding_models (
    model text PRIMARY KEY,
    status text NOT NULL CHECK (status IN ('building', 'serving', 'retired')),
    since timestamptz NOT NULL DEFAULT now(),
    worker text NOT NULL DEFAULT '',
    leased_until timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE UNIQUE INDEX one_serving_model ON knowledge.embedding_models (status) WHERE status = 'serving';

-- Documents that were taken in before this table was there.
INSERT INTO knowledge.embedding_models (model, status)
SELECT model, 'serving' FROM knowledge.chunk_vectors GROUP BY model ORDER BY count(*) DESC LIMIT 1;
"""

# The bodies stand behind row-level security, which lets searching readers through and nobody else. Embedding reads all
# of them, so it has a door of its own: only for chunks that a registered model has no vector of.
DOORS = """
CREATE FUNCTION knowledge.to_embed(wanted_model text, most integer)
    RETURNS TABLE (tenant text, chunk_id text, document_id text, searched text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.tenant, t.chunk_id, t.document_id, concat_ws(E'\\n', d.title, b.section, b.body)
    FROM knowledge.chunk_terms t
    JOIN knowledge.documents d USING (tenant, document_id)
    JOIN knowledge.chunk_bodies b USING (tenant, chunk_id)
    WHERE EXISTS (SELECT FROM knowledge.embedding_models m WHERE m.model = $1 AND m.status <> 'retired')
      AND NOT EXISTS (
        SELECT FROM knowledge.chunk_vectors v WHERE v.tenant = t.tenant AND v.model = $1 AND v.chunk_id = t.chunk_id)
    LIMIT $2 $$;

CREATE FUNCTION knowledge.drop_retired(most integer) RETURNS bigint
    LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog AS $$
    WITH dropped AS (
        DELETE FROM knowledge.chunk_vectors v USING (
            SELECT o.tenant, o.model, o.chunk_id FROM knowledge.chunk_vectors o
            JOIN knowledge.embedding_models m ON m.model = o.model
            WHERE m.status = 'retired' AND m.since < now() - interval '1 minute' LIMIT $1) old
        WHERE (v.tenant, v.model, v.chunk_id) = (old.tenant, old.model, old.chunk_id) RETURNING 1)
    SELECT count(*) FROM dropped $$;
"""

RIGHTS = f"""
REVOKE ALL ON FUNCTION knowledge.to_embed, knowledge.drop_retired FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge.to_embed, knowledge.drop_retired TO {EXECUTOR};
GRANT SELECT, INSERT, UPDATE ON knowledge.embedding_models TO {EXECUTOR};
"""


def upgrade() -> None:
    for part in (MODELS, DOORS, RIGHTS):
        op.execute(part)


def downgrade() -> None:
    op.execute("""
    DROP FUNCTION knowledge.drop_retired, knowledge.to_embed;
    DROP TABLE knowledge.embedding_models;
    """)
