"""The documents' house with its executor as a process of its own: to be killed, and to be weighed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from sqlalchemy import text

from placet.storage import OWNER
from services.approval.app import build as build_approval
from tests.integration.document_house import DocumentHouse, until
from tests.integration.foundations import foundations
from tests.integration.governance_rig import ROOT, GovernanceRig


class KillableHouse(DocumentHouse):
    """The house with its executor as a process of its own."""

    process: subprocess.Popen[bytes]

    def spawn(self) -> None:
        rig = self.governance
        settings = rig.executor_settings()
        environment = {
            **os.environ,
            "PLACET_POLICY_ENGINE": "embedded",
            "PLACET_POLICY_DIR": str(rig.policies),
            "PLACET_NATS_URL": settings.nats_url,
            "PLACET_NATS_SEED_FILE": str(settings.nats_seed_file),
            "PLACET_DATABASE_URL": settings.database_url,
            "PLACET_LOG_LEVEL": "WARNING",
            "PLACET_GRANT_PUBLIC_FILE": str(rig.keys.public("grant")),
            "PLACET_APPROVAL_PUBLIC_FILE": str(rig.keys.public("approval")),
            "PLACET_EFFECT_SIGNING_KEY_FILE": str(rig.keys.private("effect")),
        }
        with (rig.policies.parent / "executor.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.tool_executor"], env=environment, cwd=ROOT, stdout=log, stderr=log
            )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    async def sql(self, statement: str, **values: object) -> list[Any]:
        async with self.governance.postgres.database(OWNER).transaction() as connection:
            return list((await connection.execute(text(statement), values)).all())

    async def there(self, who: str) -> None:
        """Until the executor answers this person."""

        async def answers() -> bool | None:
            try:
                answer = await self.as_(who).get("/api/documents", params={"limit": 1})
            except httpx.HTTPError:
                return None
            return True if answer.status_code == 200 else None

        await until(answers)


@asynccontextmanager
async def killable_house() -> AsyncIterator[KillableHouse]:
    async with foundations() as (nats, postgres, directory):
        rig = GovernanceRig(nats, postgres, directory)
        await rig.prepare()
        approval = await build_approval(rig.approval_settings())
        await approval.start()
        house = KillableHouse(rig)
        await house.start()
        house.spawn()
        try:
            await house.there("carol")
            yield house
        finally:
            house.kill()
            await house.stop()
            await approval.stop()
