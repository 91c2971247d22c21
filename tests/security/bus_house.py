"""A bus with every user on it, and what has been stored there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS, CommandSpec
from placet.contracts.topology import BUCKETS, OBJECT_BUCKETS, STREAMS
from placet.testkit.nats import NatsRig
from tests.security.attacker import SERVICE_USERS, Attacker

ALL_STREAMS = (
    *(stream.name for stream in STREAMS),
    *(f"KV_{bucket.name}" for bucket in BUCKETS),
    *(f"OBJ_{bucket.name}" for bucket in OBJECT_BUCKETS),
)


PREFIXES = ("$JS.API", "core.api")


CALLS = tuple(spec for spec in COMMANDS if spec.reply is not None)


@dataclass
class House:
    """A server on which every owner answers every command, and every user has been taken over."""

    rig: NatsRig
    attackers: dict[str, Attacker]
    served: list[tuple[str, str]] = field(default_factory=list)
    """(command, sender) of every command that reached its owner."""


def name_of(spec: CommandSpec) -> str:
    return f"{spec.owner}.{spec.name}"


@asynccontextmanager
async def open_house(directory: Path) -> AsyncIterator[House]:
    rig = NatsRig(directory)
    await rig.start()
    found = House(rig, {user: await Attacker.connect(rig, user) for user in SERVICE_USERS})
    for spec in CALLS:
        owner = await rig.bus(spec.owner)

        async def serve(message: Msg, name: str = name_of(spec)) -> None:
            found.served.append((name, message.data.decode()))
            await message.respond(b"{}")

        await owner.client.subscribe(subjects.command_filter("*", spec.owner, spec.name), queue=spec.owner, cb=serve)
        await owner.client.flush()
    yield found
    await rig.close()


def forget(house: House) -> None:
    house.served.clear()
    for attacker in house.attackers.values():
        attacker.answers.clear()
        attacker.refusals.clear()
