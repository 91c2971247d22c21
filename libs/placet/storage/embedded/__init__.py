"""PostgreSQL as a child process, from the server binaries of a wheel."""

from placet.storage.embedded.errors import EmbeddedPostgresError
from placet.storage.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
