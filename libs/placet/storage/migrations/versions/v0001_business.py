"""The business world that tools act on, and the schema of the approval service's projections."""

from __future__ import annotations

from alembic import op

from placet.storage.roles import APPROVAL, EXECUTOR

revision = "0001"
down_revision: str | None = None
branch_labels: str | None = None
depends_on: str | None = None

TABLES = """
CREATE SCHEMA business;

CREATE TABLE business.customers (
    tenant text NOT NULL,
    customer_id text NOT NULL,
    name text NOT NULL,
    email text NOT NULL,
    phone text NOT NULL,
    served_by text[] NOT NULL DEFAULT '{}',
    served_by_teams text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (tenant, customer_id)
);
COMMENT ON COLUMN business.customers.served_by IS 'ids of the people who may serve this customer';

CREATE TABLE business.orders (
    tenant text NOT NULL,
    order_id text NOT NULL,
    customer_id text NOT NULL,
    state text NOT NULL CHECK (state IN ('placed', 'paid', 'shipped', 'delivered', 'cancelled')),
    currency char(3) NOT NULL,
    paid_amount numeric(12,2) NOT NULL CHECK (paid_amount >= 0),
    item text NOT NULL,
    shipping_address text NOT NULL DEFAULT '',
    version integer NOT NULL DEFAULT 1,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, order_id),
    FOREIGN KEY (tenant, customer_id) REFERENCES business.customers
);
CREATE INDEX orders_by_customer ON business.orders (tenant, customer_id);
COMMENT ON COLUMN business.orders.version IS 'raised by every change, refunds included; approvals are bound to it';

CREATE TABLE business.shipments (
    tenant text NOT NULL,
    shipment_id text NOT NULL,
    order_id text NOT NULL,
    carrier text NOT NULL,
    tracking_number text NOT NULL,
    state text NOT NULL CHECK (state IN ('preparing', 'in_transit', 'delivered', 'returned')),
    shipped_at timestamptz,
    delivered_at timestamptz,
    PRIMARY KEY (tenant, shipment_id),
    FOREIGN KEY (tenant, order_id) REFERENCES business.orders
);
CREATE INDEX shipments_by_order ON business.shipments (tenant, order_id);

CREATE TABLE business.refunds (
    tenant text NOT NULL,
    refund_id text NOT NULL,
    order_id text NOT NULL,
    amount numeric(12,2) NOT NULL CHECK (amount > 0),
    currency char(3) NOT NULL,
    reason text NOT NULL,
    idempotency_key text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, refund_id),
    UNIQUE (tenant, idempotency_key),
    FOREIGN KEY (tenant, order_id) REFERENCES business.orders
);
CREATE INDEX refunds_by_order ON business.refunds (tenant, order_id);

CREATE TABLE business.refund_limits (
    tenant text NOT NULL,
    actor text NOT NULL,
    currency char(3) NOT NULL,
    per_refund numeric(12,2) NOT NULL CHECK (per_refund > 0),
    per_day numeric(12,2) NOT NULL CHECK (per_day > 0),
    PRIMARY KEY (tenant, actor, currency)
);
COMMENT ON COLUMN business.refund_limits.actor IS 'a user id, or * for everybody without a row of their own';

CREATE TABLE business.refund_totals (
    tenant text NOT NULL,
    actor text NOT NULL,
    day date NOT NULL,
    currency char(3) NOT NULL,
    amount numeric(12,2) NOT NULL CHECK (amount >= 0),
    PRIMARY KEY (tenant, actor, day, currency)
);

CREATE TABLE business.order_notes (
    tenant text NOT NULL,
    note_id text NOT NULL,
    order_id text NOT NULL,
    body text NOT NULL,
    idempotency_key text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, note_id),
    UNIQUE (tenant, idempotency_key),
    FOREIGN KEY (tenant, order_id) REFERENCES business.orders
);
CREATE INDEX order_notes_by_order ON business.order_notes (tenant, order_id);

CREATE TABLE business.tickets (
    tenant text NOT NULL,
    ticket_id text NOT NULL,
    title text NOT NULL,
    priority text NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'urgent')),
    team text NOT NULL,
    description text NOT NULL,
    state text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'closed')),
    idempotency_key text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, ticket_id),
    UNIQUE (tenant, idempotency_key)
);

CREATE TABLE business.messages (
    tenant text NOT NULL,
    message_id text NOT NULL,
    recipient text NOT NULL,
    subject text NOT NULL,
    body text NOT NULL,
    idempotency_key text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, message_id),
    UNIQUE (tenant, idempotency_key)
);
"""

# What happened stays: refunds, notes and messages are only ever added.
GRANTS = f"""
GRANT USAGE ON SCHEMA business TO {EXECUTOR};
GRANT SELECT ON ALL TABLES IN SCHEMA business TO {EXECUTOR};
GRANT UPDATE ON business.orders, business.shipments, business.tickets TO {EXECUTOR};
GRANT INSERT ON business.refunds, business.order_notes, business.tickets, business.messages TO {EXECUTOR};
GRANT INSERT, UPDATE ON business.refund_totals TO {EXECUTOR};

CREATE SCHEMA proposals;
GRANT USAGE ON SCHEMA proposals TO {APPROVAL};
ALTER DEFAULT PRIVILEGES IN SCHEMA proposals GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {APPROVAL};
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(GRANTS)


def downgrade() -> None:
    op.execute("DROP SCHEMA proposals CASCADE")
    op.execute("DROP SCHEMA business CASCADE")
