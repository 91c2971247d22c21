"""Words are indexed together with the scope they stand in: what a reader asks for names no chunk of anybody else."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision: str | None = "0012"
branch_labels: str | None = None
depends_on: str | None = None

# Each word twice: within its tenant, and within its scope. A word within several scopes is the union of short lists,
# where an index of words and scopes walks long ones to intersect them (200,000 chunks, a tenth of them readable in ten
# scopes: 3 to 12 ms for one intersection, 0.5 ms now). Hashes, because the keys would be longer than what they lead to;
# two words of one scope would collide in one of 10^19 cases. The search names them in the same way.
WORDS = """
CREATE FUNCTION knowledge.words_within(tenant text, scope_key text, terms tsvector) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN (
    SELECT array_agg(hashtextextended(word, hashtextextended(name, 0)))
    FROM unnest(tsvector_to_array(terms)) AS word, unnest(ARRAY[tenant, tenant || '/' || scope_key]) AS name);
"""

_GIN = "USING gin (knowledge.words_within(tenant, scope_key, terms)) WITH (fastupdate = off)"

# Without statistics on the words: plans do not follow from what stands in chunks of others.
INDEXES = f"""
CREATE INDEX chunk_words ON knowledge.chunk_terms {_GIN} WHERE published;
CREATE INDEX chunk_words_sampled ON knowledge.chunk_terms {_GIN} WHERE published AND sampled;
ALTER INDEX knowledge.chunk_words ALTER COLUMN 1 SET STATISTICS 0;
ALTER INDEX knowledge.chunk_words_sampled ALTER COLUMN 1 SET STATISTICS 0;
DROP INDEX knowledge.chunk_terms_scoped, knowledge.chunk_terms_sampled;
"""

_BEFORE = "(terms || array_to_tsvector(ARRAY['#' || tenant, '#' || tenant || '/' || scope_key]))"


def upgrade() -> None:
    op.execute(WORDS)
    op.execute(INDEXES)


def downgrade() -> None:
    op.execute(f"""
    CREATE INDEX chunk_terms_scoped ON knowledge.chunk_terms USING gin ({_BEFORE}) WITH (fastupdate = off)
        WHERE published;
    CREATE INDEX chunk_terms_sampled ON knowledge.chunk_terms USING gin ({_BEFORE}) WITH (fastupdate = off)
        WHERE published AND sampled;
    DROP INDEX knowledge.chunk_words, knowledge.chunk_words_sampled;
    DROP FUNCTION knowledge.words_within;
    """)
