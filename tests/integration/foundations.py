"""A running bus and a running database, for rigs and benchmarks."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from placet.testkit.nats import NatsRig
from placet.testkit.postgres import PostgresRig


@asynccontextmanager
async def foundations() -> AsyncIterator[tuple[NatsRig, PostgresRig, Path]]:
    """Both, and the directory they live in; everything is stopped and removed at the end."""
    directory = Path(tempfile.mkdtemp(prefix="placet-test-"))
    directory.chmod(0o755)  # the database runs as an unprivileged user below it
    (directory / "nats").mkdir()
    nats, postgres = NatsRig(directory / "nats"), PostgresRig(directory / "postgres")
    try:
        await nats.start()
        await postgres.start()
        yield nats, postgres, directory
    finally:
        await nats.close()
        await postgres.close()
        shutil.rmtree(directory, ignore_errors=True)
