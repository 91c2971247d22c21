"""A real PostgreSQL with the real roles and schema, for tests: migrated, seeded, killed and started again at will."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from placet.knowledge.embedders import UseEmbedder
from placet.knowledge.ports import Embedder
from placet.knowledge.seed import load
from placet.knowledge.store import KnowledgeStore
from placet.storage import EXECUTOR, OWNER, Database, EmbeddedPostgres, ensure_roles, migrate
from placet.storage.roles import ROLES
from placet.storage.seed import seed_business
from placet.testkit.inline_parser import InlineParser
from placet.testkit.originals import MemoryOriginals


class PostgresRig:
    """One server in one directory. `embedder` and `originals` are shared by all stores made here."""

    def __init__(self, directory: Path) -> None:
        self.server = EmbeddedPostgres(directory)
        self.passwords = {role: secrets.token_urlsafe(16) for role in ROLES}
        self.originals = MemoryOriginals()
        self.embedder: Embedder = UseEmbedder()
        self._databases: dict[str, Database] = {}

    async def start(self) -> None:
        """Start the server, make the roles and bring the schema up to date."""
        await self.server.start()
        await ensure_roles(self.server.admin_url, self.passwords)
        await asyncio.to_thread(migrate, self.url(OWNER))

    def url(self, role: str = EXECUTOR) -> str:
        return self.server.url(role, self.passwords[role])

    def database(self, role: str = EXECUTOR) -> Database:
        """The pool of `role`, closed by `close`."""
        if role not in self._databases:
            self._databases[role] = Database.open(self.url(role))
        return self._databases[role]

    def knowledge(self, embedder: Embedder | None = None) -> KnowledgeStore:
        """A store as the executor's role. It parses in this process: the child process has tests of its own."""
        return KnowledgeStore(self.database(), self.originals, embedder or self.embedder, InlineParser())

    async def seed(self, seeds: Path) -> None:
        """Load the demo world below `seeds`: documents and business data."""
        await seed_business(self.database(OWNER).engine, seeds / "business")
        await load(self.knowledge(), seeds / "knowledge")

    async def kill9(self) -> None:
        """What a crash or an out-of-memory killer does to the postmaster."""
        await self.server.kill()

    async def close(self) -> None:
        for database in self._databases.values():
            await database.close()
        self._databases.clear()
        await self.server.stop()
