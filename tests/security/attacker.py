"""A bus user that has been taken over: it sends whatever its credentials let it, and sees what comes back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import nats.errors
from nats.aio.msg import Msg

from placet.contracts.topology import USERS
from placet.messaging.connection import Bus
from placet.testkit.nats import NatsRig

# Everybody but `provision`, whose seed no running service holds.
SERVICE_USERS = tuple(user for user in USERS if user != "provision")


@dataclass
class Attacker:
    """`answers` holds every message that reached its inbox, `refusals` what the server objected to."""

    user: str
    bus: Bus
    answers: list[Msg] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @classmethod
    async def connect(cls, rig: NatsRig, user: str) -> Attacker:
        attacker = cls(user, await rig.bus(user))

        async def on_error(error: Exception) -> None:
            attacker.refusals.append(str(error))

        attacker.bus.client._error_cb = on_error
        await attacker.bus.client.subscribe(f"{attacker.inbox}.>", cb=attacker._on_answer)
        await attacker.settle()
        return attacker

    @property
    def inbox(self) -> str:
        return f"{self.bus.settings.inbox_prefix}.loot"

    async def _on_answer(self, message: Msg) -> None:
        self.answers.append(message)

    async def send(
        self, subject: str, payload: bytes = b"", *, reply: str = "", headers: dict[str, str] | None = None
    ) -> None:
        try:
            await self.bus.client.publish(subject, payload, reply=reply, headers=headers)
        except nats.errors.BadSubjectError:
            self.refusals.append(f"client: {subject}")

    async def ask(self, subject: str, payload: bytes = b"") -> None:
        """Send with a reply subject of its own, named so that an answer tells which question it belongs to."""
        await self.send(subject, payload, reply=f"{self.inbox}.{subject.replace('.', '_').replace('>', '_')}")

    async def settle(self) -> None:
        """Until the server has dealt with everything sent so far, and answers had time to come."""
        await self.bus.client.flush(timeout=5)
        await asyncio.sleep(0.08)


def concrete(pattern: str, entity: str) -> str:
    """One subject that a permission pattern covers: the tenant for `*`, `entity` for the rest."""
    return ".".join({"*": "acme", ">": entity}.get(part, part) for part in pattern.split("."))


async def counts(rig: NatsRig) -> dict[str, int]:
    """Messages ever stored, by stream."""
    bus = await rig.bus("provision")
    return {str(info.config.name): int(info.state.last_seq) for info in await bus.js.streams_info()}


async def configuration(rig: NatsRig) -> dict[str, Any]:
    """Streams with their settings, and the names of their consumers."""
    bus = await rig.bus("provision")
    found: dict[str, Any] = {}
    for info in await bus.js.streams_info():
        name = str(info.config.name)
        consumers = sorted(str(one.name) for one in await bus.js.consumers_info(name))
        found[name] = (info.config, consumers, info.state.messages)
    return found
