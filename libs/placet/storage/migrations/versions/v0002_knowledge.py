"""Documents under permission: bases, documents, versions, search tables, and bodies under row-level security."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

TABLES = """
CREATE SCHEMA knowledge;

CREATE TABLE knowledge.bases (
    tenant text NOT NULL,
    base_id text NOT NULL,
    title text NOT NULL,
    owner text,
    roles text[] NOT NULL DEFAULT '{}',
    teams text[] NOT NULL DEFAULT '{}',
    clearance integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, base_id)
);

CREATE TABLE knowledge.documents (
    tenant text NOT NULL,
    document_id text NOT NULL,
    base_id text NOT NULL,
    title text NOT NULL,
    owner text,
    roles text[] NOT NULL DEFAULT '{}',
    teams text[] NOT NULL DEFAULT '{}',
    clearance integer NOT NULL DEFAULT 0,
    trusted boolean NOT NULL DEFAULT true,
    published_version integer,
    lock_version integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    scope_key text NOT NULL GENERATED ALWAYS AS (
        CASE WHEN cardinality(roles) = 0 AND cardinality(teams) = 0 AND clearance = 0
             THEN 'b:' || base_id ELSE 'd:' || document_id END) STORED,
    PRIMARY KEY (tenant, document_id),
    FOREIGN KEY (tenant, base_id) REFERENCES knowledge.bases
);
CREATE INDEX documents_by_scope ON knowledge.documents (tenant, scope_key);
COMMENT ON COLUMN knowledge.documents.scope_key IS
    'the unit of visibility: the base, or the document itself when its own list narrows the base''s';

CREATE TABLE knowledge.versions (
    tenant text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    status text NOT NULL CHECK (status IN ('draft', 'published', 'archived')),
    filename text NOT NULL,
    media_type text NOT NULL,
    original_key text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    pages integer,
    authors text[] NOT NULL DEFAULT '{}',
    chunk_count integer NOT NULL,
    term_count bigint NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    published_at timestamptz,
    PRIMARY KEY (tenant, document_id, version),
    FOREIGN KEY (tenant, document_id) REFERENCES knowledge.documents
);
CREATE UNIQUE INDEX one_published_version ON knowledge.versions (tenant, document_id) WHERE status = 'published';

CREATE TABLE knowledge.publications (
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    previous_version integer,
    lock_version integer NOT NULL,
    actor text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, idempotency_key),
    FOREIGN KEY (tenant, document_id, version) REFERENCES knowledge.versions
);

CREATE TABLE knowledge.chunk_bodies (
    tenant text NOT NULL,
    chunk_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    ordinal integer NOT NULL,
    page integer,
    section text,
    body text NOT NULL,
    PRIMARY KEY (tenant, chunk_id),
    UNIQUE (tenant, document_id, version, ordinal),
    FOREIGN KEY (tenant, document_id, version) REFERENCES knowledge.versions
);
"""

# Plans made without statistics scan the scope instead of using the text index.
ANALYZE_SOON = "autovacuum_analyze_threshold = 200, autovacuum_analyze_scale_factor = 0.05"

# Search runs on side tables with the scope as an explicit predicate: under row-level security the text index could
# not be used, because `@@` is not leakproof.
SIDE_TABLES = f"""
CREATE TABLE knowledge.chunk_terms (
    tenant text NOT NULL,
    chunk_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    scope_key text NOT NULL,
    published boolean NOT NULL DEFAULT false,
    term_count integer NOT NULL,
    terms tsvector NOT NULL,
    PRIMARY KEY (tenant, chunk_id),
    FOREIGN KEY (tenant, chunk_id) REFERENCES knowledge.chunk_bodies
);
ALTER TABLE knowledge.chunk_terms ALTER COLUMN terms SET STORAGE EXTERNAL;
CREATE INDEX chunk_terms_text ON knowledge.chunk_terms USING gin (terms) WITH (fastupdate = off);
CREATE INDEX chunk_terms_scope ON knowledge.chunk_terms (tenant, scope_key) WHERE published;
CREATE INDEX chunk_terms_document ON knowledge.chunk_terms (tenant, document_id, version);

CREATE TABLE knowledge.chunk_vectors (
    tenant text NOT NULL,
    model text NOT NULL,
    chunk_id text NOT NULL,
    document_id text NOT NULL,
    version integer NOT NULL,
    scope_key text NOT NULL,
    published boolean NOT NULL DEFAULT false,
    embedding vector NOT NULL,
    PRIMARY KEY (tenant, model, chunk_id),
    FOREIGN KEY (tenant, chunk_id) REFERENCES knowledge.chunk_bodies
);
CREATE INDEX chunk_vectors_scope ON knowledge.chunk_vectors (tenant, model, scope_key) WHERE published;
CREATE INDEX chunk_vectors_document ON knowledge.chunk_vectors (tenant, document_id, version);
CREATE INDEX chunk_vectors_use ON knowledge.chunk_vectors
    USING hnsw ((embedding::vector(512)) vector_cosine_ops) WHERE published AND model = 'use-multilingual-3';

-- Ranking reads these columns row by row: kept in the row and uncompressed they cost a third.
ALTER TABLE knowledge.chunk_terms SET (toast_tuple_target = 8160, {ANALYZE_SOON});
ALTER TABLE knowledge.chunk_vectors SET (toast_tuple_target = 8160, {ANALYZE_SOON});
"""

# One definition of who may read, for resolving the scope and for the row-level wall. The actor comes from settings of
# the transaction; where they are missing every comparison is null and nothing is visible.
ACCESS = """
CREATE FUNCTION knowledge.actor_tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.tenant', true), '');
CREATE FUNCTION knowledge.actor_user() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.user', true), '');
CREATE FUNCTION knowledge.actor_roles() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.roles', true), '')::text[];
CREATE FUNCTION knowledge.actor_teams() RETURNS text[] LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.teams', true), '')::text[];
CREATE FUNCTION knowledge.actor_clearance() RETURNS integer LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.clearance', true), '')::integer;

CREATE FUNCTION knowledge.listed(roles text[], teams text[], clearance integer) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE RETURN
    (cardinality(roles) = 0 OR roles && knowledge.actor_roles())
    AND (cardinality(teams) = 0 OR teams && knowledge.actor_teams())
    AND clearance <= knowledge.actor_clearance();

-- A base that names no role and no team is nobody's but its owner's.
CREATE FUNCTION knowledge.base_open(owner text, roles text[], teams text[], clearance integer) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE RETURN coalesce(
    owner = knowledge.actor_user()
    OR (cardinality(roles) + cardinality(teams) > 0 AND knowledge.listed(roles, teams, clearance)), false);

-- A document without a list of its own is as open as its base; with one, both must let the reader in.
CREATE FUNCTION knowledge.document_open(owner text, roles text[], teams text[], clearance integer) RETURNS boolean
    LANGUAGE sql STABLE PARALLEL SAFE RETURN coalesce(
    owner = knowledge.actor_user() OR knowledge.listed(roles, teams, clearance), false);
"""

WALL = f"""
ALTER TABLE knowledge.chunk_bodies ENABLE ROW LEVEL SECURITY;
CREATE POLICY read_in_scope ON knowledge.chunk_bodies FOR SELECT TO {EXECUTOR} USING (
    tenant = knowledge.actor_tenant()
    AND EXISTS (
        SELECT FROM knowledge.documents d JOIN knowledge.bases b USING (tenant, base_id)
        WHERE d.tenant = chunk_bodies.tenant AND d.document_id = chunk_bodies.document_id
          AND d.published_version = chunk_bodies.version
          AND knowledge.base_open(b.owner, b.roles, b.teams, b.clearance)
          AND knowledge.document_open(d.owner, d.roles, d.teams, d.clearance)));
CREATE POLICY add_own_tenant ON knowledge.chunk_bodies FOR INSERT TO {EXECUTOR} WITH CHECK (
    tenant = knowledge.actor_tenant());

GRANT USAGE ON SCHEMA knowledge TO {EXECUTOR};
GRANT SELECT, INSERT, UPDATE ON knowledge.bases, knowledge.documents, knowledge.versions TO {EXECUTOR};
GRANT SELECT, INSERT ON knowledge.publications, knowledge.chunk_bodies TO {EXECUTOR};
GRANT SELECT, INSERT, UPDATE (published, scope_key) ON knowledge.chunk_terms, knowledge.chunk_vectors TO {EXECUTOR};
"""  # noqa: S608 (constants only)


def upgrade() -> None:
    for part in (TABLES, SIDE_TABLES, ACCESS, WALL):
        op.execute(part)


def downgrade() -> None:
    op.execute("DROP SCHEMA knowledge CASCADE")
