"""What the business tools write beside the business rows, and the views that `run_readonly_sql` may read."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import EXECUTOR

revision = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

TABLES = """
CREATE TABLE business.tool_effects (
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    tool text NOT NULL,
    args_digest text NOT NULL,
    result jsonb NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, idempotency_key)
);
COMMENT ON TABLE business.tool_effects IS
    'the first result of every write, in the same transaction as the write: a repeated key is answered from here';

CREATE TABLE business.order_changes (
    tenant text NOT NULL,
    idempotency_key text NOT NULL,
    order_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('cancel', 'change')),
    reason text NOT NULL DEFAULT '',
    before jsonb NOT NULL,
    after jsonb NOT NULL,
    order_version integer NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, idempotency_key),
    FOREIGN KEY (tenant, order_id) REFERENCES business.orders
);
CREATE INDEX order_changes_by_order ON business.order_changes (tenant, order_id);
COMMENT ON COLUMN business.order_changes.order_version IS 'the version of the order that this change made';
"""

# Rows of the tenant that the transaction names, or none. Personal fields are left out, not masked: a query could
# rename a column and so walk past masking by field name.
VIEWS = """
CREATE SCHEMA business_read;
CREATE FUNCTION business_read.tenant() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE
    RETURN nullif(current_setting('placet.tenant', true), '');

CREATE VIEW business_read.customers WITH (security_barrier) AS
    SELECT customer_id, served_by, served_by_teams
    FROM business.customers WHERE tenant = business_read.tenant();
CREATE VIEW business_read.orders WITH (security_barrier) AS
    SELECT order_id, customer_id, state, currency, paid_amount, item, version, created_at, updated_at
    FROM business.orders WHERE tenant = business_read.tenant();
CREATE VIEW business_read.refunds WITH (security_barrier) AS
    SELECT refund_id, order_id, amount, currency, reason, created_by, created_at
    FROM business.refunds WHERE tenant = business_read.tenant();
CREATE VIEW business_read.shipments WITH (security_barrier) AS
    SELECT shipment_id, order_id, carrier, state, shipped_at, delivered_at
    FROM business.shipments WHERE tenant = business_read.tenant();
CREATE VIEW business_read.tickets WITH (security_barrier) AS
    SELECT ticket_id, title, priority, team, state, created_by, created_at
    FROM business.tickets WHERE tenant = business_read.tenant();
"""

# What happened stays: effects and changes are only ever added.
GRANTS = f"""
GRANT SELECT, INSERT ON business.tool_effects, business.order_changes TO {EXECUTOR};
GRANT USAGE ON SCHEMA business_read TO {EXECUTOR};
GRANT SELECT ON ALL TABLES IN SCHEMA business_read TO {EXECUTOR};
"""


def upgrade() -> None:
    for part in (TABLES, VIEWS, GRANTS):
        op.execute(part)


def downgrade() -> None:
    op.execute("DROP SCHEMA business_read CASCADE")
    op.execute("DROP TABLE business.order_changes, business.tool_effects")
