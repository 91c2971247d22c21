"""PostgreSQL: the embedded server, roles, migrations, pooled connections and transactions."""

from placet.storage.database import Database, create_engine
from placet.storage.embedded import EmbeddedPostgres, EmbeddedPostgresError
from placet.storage.migrate import migrate
from placet.storage.roles import AGENT, APPROVAL, DATABASE, EMBEDDER, EXECUTOR, OWNER, READER, ensure_roles
from placet.storage.seed import seed_business

__all__ = [
    "AGENT",
    "APPROVAL",
    "DATABASE",
    "EMBEDDER",
    "EXECUTOR",
    "OWNER",
    "READER",
    "Database",
    "EmbeddedPostgres",
    "EmbeddedPostgresError",
    "create_engine",
    "ensure_roles",
    "migrate",
    "seed_business",
]
