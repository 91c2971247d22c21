"""Where the record is: a bus, read with the auditor's credentials, or files that were exported from one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from placet.audit.verify import Archive
from placet.cli.record.export import ExportedArchive
from placet.cli.state_dir import StateDir
from placet.messaging.archive import BusArchive
from placet.messaging.connection import Bus, BusSettings, BusUnreachableError

_PATIENCE_S = 5.0


class NotThereError(RuntimeError):
    """The record cannot be read at all; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Source:
    """What was said; what was not is taken from the state directory of a local `placet up`."""

    state: StateDir
    url: str | None = None
    seed_file: Path | None = None
    export: Path | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Archive]:
        """Raises `NotThereError`."""
        if self.export:
            if not self.export.is_dir():
                raise NotThereError(f"no directory {self.export}")
            yield ExportedArchive(self.export)
            return
        url, seed_file = self.url or self._local_url(), self.seed_file or self.state.bus_users / "auditor.seed"
        try:
            settings = BusSettings(url, "auditor", seed_file.read_text(encoding="utf-8").strip())
        except OSError:
            raise NotThereError(f"no auditor's seed {seed_file}: give --seed-file") from None
        try:
            bus = await Bus.connect(settings, patience_s=_PATIENCE_S)
        except BusUnreachableError as error:
            raise NotThereError(f"no bus at {url}, or it does not take {seed_file}: {error}") from error
        try:
            yield BusArchive(bus)
        finally:
            await bus.close()

    def _local_url(self) -> str:
        try:
            return f"nats://127.0.0.1:{json.loads(self.state.ports.read_text(encoding='utf-8'))['nats']}"
        except (OSError, ValueError, KeyError):
            raise NotThereError("where is the bus? Give --nats, or --state-dir of a local `placet up`") from None
