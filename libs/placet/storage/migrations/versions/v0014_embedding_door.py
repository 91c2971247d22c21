"""Text to embed is given to a role that only embedding takes on, and to the worker that holds the model's lease."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EMBEDDER, EXECUTOR

revision = "0014"
down_revision: str | None = "0013"
branch_labels: str | None = None
depends_on: str | None = None

# `plan` tells later whether the chunk still says what was embedded.
DOOR = f"""
DROP FUNCTION knowledge.to_embed(text, integer);
CREATE FUNCTION knowledge.to_embed(wanted_model text, holder text, most integer)
    RETURNS TABLE (tenant text, chunk_id text, document_id text, plan text, searched text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
    SELECT t.tenant, t.chunk_id, t.document_id, v.plan,
           concat_ws(E'\\n', nullif(v.title, ''), nullif(b.section, ''), b.body)
    FROM knowledge.chunk_terms t
    JOIN knowledge.versions v USING (tenant, document_id, version)
    JOIN knowledge.chunk_bodies b USING (tenant, chunk_id)
    WHERE EXISTS (
        SELECT FROM knowledge.embedding_models m
        WHERE m.model = $1 AND m.status <> 'retired' AND m.worker = $2 AND m.leased_until > now())
      AND NOT EXISTS (
        SELECT FROM knowledge.chunk_vectors e WHERE e.tenant = t.tenant AND e.model = $1 AND e.chunk_id = t.chunk_id)
    LIMIT $3 $$;
REVOKE ALL ON FUNCTION knowledge.to_embed FROM PUBLIC;
GRANT USAGE ON SCHEMA knowledge TO {EMBEDDER};
GRANT EXECUTE ON FUNCTION knowledge.to_embed TO {EMBEDDER};
"""  # noqa: S608 (constants only)

FORMER_DOOR = f"""
DROP FUNCTION knowledge.to_embed(text, text, integer);
REVOKE USAGE ON SCHEMA knowledge FROM {EMBEDDER};
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
REVOKE ALL ON FUNCTION knowledge.to_embed FROM PUBLIC;
GRANT EXECUTE ON FUNCTION knowledge.to_embed TO {EXECUTOR};
"""  # noqa: S608


def upgrade() -> None:
    op.execute(DOOR)


def downgrade() -> None:
    op.execute(FORMER_DOOR)
