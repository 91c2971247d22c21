"""Search that touches what its reader may see and little else: the scope inside the text index, sketches of vectors,
a sample for word rarity, and running totals per scope."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None

# The scope as terms of its own: an intersection inside the index visits the rows of readable chunks only. `#` stands in
# no term of a text. Word rarity is estimated on every 64th chunk, which an index of its own holds.
_SEARCHED = "(terms || array_to_tsvector(ARRAY['#' || tenant, '#' || tenant || '/' || scope_key]))"
_GIN = f"USING gin ({_SEARCHED}) WITH (fastupdate = off)"

WORDS = f"""
DROP INDEX knowledge.chunk_terms_text, knowledge.chunk_terms_scope;
ALTER TABLE knowledge.chunk_terms
    ADD COLUMN sampled boolean NOT NULL GENERATED ALWAYS AS (hashtext(chunk_id) % 64 = 0) STORED;
CREATE INDEX chunk_terms_scoped ON knowledge.chunk_terms {_GIN} WHERE published;
CREATE INDEX chunk_terms_sampled ON knowledge.chunk_terms {_GIN} WHERE published AND sampled;
"""

# A sketch is the signs of (at most) the first 512 dimensions: compared by counting bits, kept in the index, the same
# for every model. The best by sketch are compared by their whole vectors.
MEANINGS = """
DROP INDEX knowledge.chunk_vectors_scope, knowledge.chunk_vectors_use;
ALTER TABLE knowledge.chunk_vectors ADD COLUMN sketch bit(512) NOT NULL
    GENERATED ALWAYS AS (CAST(binary_quantize(subvector(embedding, 1, 512)) AS bit(512))) STORED;
CREATE INDEX chunk_vectors_scoped ON knowledge.chunk_vectors (tenant, model, scope_key) INCLUDE (chunk_id, sketch)
    WHERE published;
CREATE INDEX chunk_vectors_near ON knowledge.chunk_vectors USING hnsw (sketch bit_hamming_ops) WHERE published;
"""

TOTALS = """
CREATE TABLE knowledge.scope_totals (
    tenant text NOT NULL,
    scope_key text NOT NULL,
    chunks bigint NOT NULL,
    terms bigint NOT NULL,
    PRIMARY KEY (tenant, scope_key)
);
COMMENT ON TABLE knowledge.scope_totals IS 'published chunks and their terms per scope; kept by triggers';

-- In the order of the keys, so that documents that change places with each other do not deadlock.
CREATE FUNCTION knowledge.move_totals(tenant text, document_id text, was integer, was_key text, "is" integer,
    is_key text) RETURNS void LANGUAGE sql SET search_path = pg_catalog AS $$
    INSERT INTO knowledge.scope_totals AS held (tenant, scope_key, chunks, terms)
    SELECT $1, moved.scope_key, sum(moved.sign * v.chunk_count), sum(moved.sign * v.term_count)
    FROM (VALUES ($3, $4, -1), ($5, $6, 1)) AS moved (version, scope_key, sign)
    JOIN knowledge.versions v ON v.tenant = $1 AND v.document_id = $2 AND v.version = moved.version
    GROUP BY moved.scope_key ORDER BY moved.scope_key
    ON CONFLICT (tenant, scope_key) DO UPDATE
    SET chunks = held.chunks + excluded.chunks, terms = held.terms + excluded.terms $$;

CREATE FUNCTION knowledge.document_moved() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        PERFORM knowledge.move_totals(NEW.tenant, NEW.document_id, NULL, NULL, NEW.published_version, NEW.scope_key);
    ELSIF TG_OP = 'DELETE' THEN
        PERFORM knowledge.move_totals(OLD.tenant, OLD.document_id, OLD.published_version, OLD.scope_key, NULL, NULL);
    ELSIF (OLD.published_version, OLD.scope_key) IS DISTINCT FROM (NEW.published_version, NEW.scope_key) THEN
        PERFORM knowledge.move_totals(NEW.tenant, NEW.document_id, OLD.published_version, OLD.scope_key,
            NEW.published_version, NEW.scope_key);
    END IF;
    RETURN NULL; END $$;

CREATE FUNCTION knowledge.version_recounted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
    SET search_path = pg_catalog AS $$ BEGIN
    UPDATE knowledge.scope_totals t
    SET chunks = t.chunks + NEW.chunk_count - OLD.chunk_count, terms = t.terms + NEW.term_count - OLD.term_count
    FROM knowledge.documents d
    WHERE d.tenant = NEW.tenant AND d.document_id = NEW.document_id AND d.published_version = NEW.version
      AND t.tenant = d.tenant AND t.scope_key = d.scope_key;
    RETURN NULL; END $$;

CREATE TRIGGER keep_totals AFTER INSERT OR DELETE OR UPDATE ON knowledge.documents
    FOR EACH ROW EXECUTE FUNCTION knowledge.document_moved();
CREATE TRIGGER keep_totals AFTER UPDATE OF chunk_count, term_count ON knowledge.versions
    FOR EACH ROW EXECUTE FUNCTION knowledge.version_recounted();

INSERT INTO knowledge.scope_totals
SELECT d.tenant, d.scope_key, sum(v.chunk_count), sum(v.term_count)
FROM knowledge.documents d
JOIN knowledge.versions v
  ON v.tenant = d.tenant AND v.document_id = d.document_id AND v.version = d.published_version
GROUP BY d.tenant, d.scope_key;
"""

RIGHTS = f"""
REVOKE ALL ON FUNCTION knowledge.move_totals, knowledge.document_moved, knowledge.version_recounted FROM PUBLIC;
GRANT SELECT ON knowledge.scope_totals TO {EXECUTOR};
"""


def upgrade() -> None:
    for part in (WORDS, MEANINGS, TOTALS, RIGHTS):
        op.execute(part)


def downgrade() -> None:
    op.execute("""
    DROP TRIGGER keep_totals ON knowledge.versions;
    DROP TRIGGER keep_totals ON knowledge.documents;
    DROP FUNCTION knowledge.version_recounted, knowledge.document_moved, knowledge.move_totals;
    DROP TABLE knowledge.scope_totals;
    ALTER TABLE knowledge.chunk_vectors DROP COLUMN sketch;
    ALTER TABLE knowledge.chunk_terms DROP COLUMN sampled;
    DROP INDEX knowledge.chunk_terms_scoped;
    CREATE INDEX chunk_terms_text ON knowledge.chunk_terms USING gin (terms) WITH (fastupdate = off);
    CREATE INDEX chunk_terms_scope ON knowledge.chunk_terms (tenant, scope_key) WHERE published;
    CREATE INDEX chunk_vectors_scope ON knowledge.chunk_vectors (tenant, model, scope_key) WHERE published;
    CREATE INDEX chunk_vectors_use ON knowledge.chunk_vectors
        USING hnsw ((embedding::vector(512)) vector_cosine_ops) WHERE published AND model = 'use-multilingual-3';
    """)
