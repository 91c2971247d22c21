"""The tamper-evident record on a real bus: sealed by killable processes, proven with the auditor's credentials."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from placet.audit.sealer import Sealer
from placet.audit.trail import AuditTrail
from placet.cli.main import app
from placet.contracts.audit import SEALED_STREAMS, AuditRecord
from placet.contracts.stored import StoredBytes
from placet.identity import keys as key_files
from placet.identity.signing import EventSigner, EventVerifier
from placet.messaging.append import Appender, AuditWriter, NewEvent
from placet.messaging.archive import BusArchive, seal_subject
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader
from placet.messaging.seals import SealStream
from placet.testkit.builders import viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from services.approval.adapters.seal_book import StreamSealBook

pytestmark = pytest.mark.spec("L2")
ROOT = Path(__file__).resolve().parents[2]


@dataclass
class House:
    rig: NatsRig
    keys: Path
    bus: Bus

    def sealer(self, key: str = "audit") -> Sealer:
        pair = key_files.read(self.keys / f"{key}.private.jwk")
        book = StreamSealBook(
            SealStream(self.bus, EventSigner(pair), EventVerifier([pair])),
            AuditTrail(AuditWriter(self.bus), "approval"),
        )
        return Sealer(book, BusArchive(self.bus))

    async def write(self, count: int, action: str = "act") -> None:
        writer = AuditWriter(self.bus)
        record = AuditRecord(service="approval", action=action, outcome="ok", request_id="req-1")
        await asyncio.gather(*(writer.write("acme", "tool-decided", f"run-{n}", record) for n in range(count)))

    async def verify(self, *options: str) -> Result:
        """`placet audit verify`, as the auditor calls it."""
        auditor = ("--nats", self.rig.url, "--seed-file", str(self.rig.seed_file("auditor")), "--keys", str(self.keys))
        return await asyncio.to_thread(CliRunner().invoke, app, ["audit", "verify", *auditor, *options])

    async def proven(self) -> dict[str, dict[str, Any]]:
        lines = (await self.verify("--json")).stdout.splitlines()
        return {found["stream"]: found for found in map(json.loads, lines)}


@pytest.fixture
async def house(own_rig: NatsRig, tmp_path: Path) -> House:
    for name in ("audit", "approval", "effect", "stranger"):
        key_files.write_pair(tmp_path / "keys", name)
    return House(own_rig, tmp_path / "keys", await own_rig.bus("approval"))


async def rewrite(rig: NatsRig, stream: str, edit: Callable[[list[StoredBytes]], None]) -> None:
    """What only the administrator can do: make the stream anew, with another content."""
    administrator = await rig.bus("provision")
    archive = BusArchive(administrator)
    messages = [one async for one in archive.events(stream)]
    edit(messages)
    config = (await administrator.js.stream_info(stream)).config
    await administrator.js.delete_stream(stream)
    await administrator.js.add_stream(config)
    for one in messages:
        kept = {name: value for name, value in one.headers.items() if name.startswith("Placet-")}
        await administrator.js.publish(one.subject, one.payload, headers=kept or None)


async def test_honest_record_is_proven_with_the_auditors_credentials_and_public_keys_alone(
    house: House, tmp_path: Path
) -> None:
    appender = Appender(
        house.bus, "approval", "APPROVALS", EventSigner(key_files.read(house.keys / "approval.private.jwk"))
    )
    await appender.append("acme", NewEvent("viewed", "p1", viewed("p1", "dave")), 0)
    await house.write(20)
    sealer = house.sealer()
    for stream in SEALED_STREAMS:
        await sealer.seal(stream)
    await house.write(3)
    public = tmp_path / "public"
    public.mkdir()
    for file in house.keys.glob("*.public.jwk"):
        (public / file.name).write_bytes(file.read_bytes())
    ended = await house.verify("--keys", str(public))
    assert ended.exit_code == 0, ended.output
    assert ended.stdout.splitlines() == [
        "✓ AUDIT: 20 events in 1 seals hold; 3 not sealed yet",
        "✓ APPROVALS: 1 events in 1 seals hold",
        "✓ EFFECTS: 0 events in 0 seals hold",
    ]


def changed(messages: list[StoredBytes]) -> None:
    target = messages[11]
    forged = target.payload.replace(b'"outcome":"ok"', b'"outcome":"no"')
    assert forged != target.payload
    messages[11] = StoredBytes(target.seq, target.subject, forged, target.headers)


def removed(messages: list[StoredBytes]) -> None:
    del messages[11]


def reordered(messages: list[StoredBytes]) -> None:
    messages[11], messages[12] = messages[12], messages[11]


def cut_off(messages: list[StoredBytes]) -> None:
    del messages[11:]


@pytest.mark.parametrize("edit", [changed, removed, reordered, cut_off], ids=lambda edit: edit.__name__)
async def test_record_rewritten_by_the_administrator_is_broken_at_the_first_event_that_differs(
    house: House, edit: Callable[[list[StoredBytes]], None]
) -> None:
    await house.write(20)
    await house.sealer().seal("AUDIT")
    await rewrite(house.rig, "AUDIT", edit)
    ended = await house.verify()
    assert ended.exit_code == 1, ended.output
    first = ended.stdout.splitlines()[0]
    assert first.startswith("✗ AUDIT: event 12 ")
    assert ("is missing" if edit is cut_off else "is not what was sealed (seal 1)") in first


async def test_seals_made_anew_with_another_key_are_not_the_sealers(house: House) -> None:
    await house.write(20)
    await house.sealer().seal("AUDIT")
    await rewrite(house.rig, "AUDIT", changed)
    administrator = await house.rig.bus("provision")
    config = (await administrator.js.stream_info("SEALS")).config
    await administrator.js.delete_stream("SEALS")
    await administrator.js.add_stream(config)
    await house.sealer("stranger").seal("AUDIT")
    ended = await house.verify()
    assert (ended.exit_code, ended.stdout.splitlines()[0]) == (
        1,
        "✗ AUDIT: seal 1 is not signed by the sealer, or damaged",
    )


async def test_rollback_of_everything_is_found_by_the_anchor_kept_elsewhere(house: House, tmp_path: Path) -> None:
    anchor = tmp_path / "anchor.json"
    await house.write(5)
    await house.sealer().seal("AUDIT")
    assert (await house.verify("--anchor", str(anchor))).exit_code == 0
    await house.write(5)
    assert (await house.verify("--anchor", str(anchor))).exit_code == 0
    for stream in ("AUDIT", "SEALS"):
        await rewrite(house.rig, stream, lambda messages: messages.clear())
    assert (await house.verify()).exit_code == 0
    ended = await house.verify("--anchor", str(anchor))
    assert ended.exit_code == 1
    assert "seal 1, seen earlier, is not there as it was" in ended.stdout
    anchor.write_text("{}[")
    assert (await house.verify("--anchor", str(anchor))).exit_code == 2


async def test_message_among_the_seals_that_is_none_is_passed_over_alarmed_and_named(house: House) -> None:
    await house.write(5)
    sealer = house.sealer()
    await sealer.seal("AUDIT")
    administrator = await house.rig.bus("provision")
    await administrator.js.publish(seal_subject("AUDIT"), b"not even an event")
    await house.write(5)
    await sealer.seal("AUDIT")
    await sealer.seal("AUDIT")
    alarms = await EventReader(house.bus, "AUDIT").page("placet.platform.audit.evt.*.v1.*", after=0, limit=10)
    assert [one.envelope.data["action"] for one in alarms] == ["bad_seal"]
    chain = [one async for one in BusArchive(house.bus).seals("AUDIT")]
    assert [b"from_seq" in one.payload for one in chain] == [True, False, True]
    ended = await house.verify()
    assert (ended.exit_code, "seal 2 is not signed by the sealer" in ended.stdout) == (1, True)


async def test_exported_record_is_proven_where_no_bus_is_and_a_changed_line_is_named(
    house: House, tmp_path: Path
) -> None:
    await house.write(20)
    await house.sealer().seal("AUDIT")
    copy = tmp_path / "copy"
    bus = ("--nats", house.rig.url, "--seed-file", str(house.rig.seed_file("auditor")))
    exported = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "export", str(copy), *bus])
    assert exported.stdout.splitlines() == ["AUDIT: 20 events", "APPROVALS: 0 events", "EFFECTS: 0 events"]
    house.rig.stop()
    assert (await house.verify("--export", str(copy))).exit_code == 0
    file = copy / "AUDIT.events.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    lines[6] = lines[6].replace('"payload": "', '"payload": "AAAA')
    file.write_text("".join(lines))
    ended = await house.verify("--export", str(copy))
    assert (ended.exit_code, "✗ AUDIT: event 7 " in ended.stdout) == (1, True)
    file.write_text("{}\n")
    ended = await house.verify("--export", str(copy))
    assert (ended.exit_code, "AUDIT.events.jsonl, line 1" in ended.stderr) == (2, True)


async def test_sealers_of_several_replicas_make_one_chain(house: House) -> None:
    sealers = [house.sealer() for _ in range(4)]
    for _ in range(5):
        await house.write(10)
        await asyncio.gather(*(sealer.seal("AUDIT") for sealer in sealers))
    await until(lambda: _all_sealed(house, sealers[0]))
    found = (await house.proven())["AUDIT"]
    assert (found["holds"], found["events"]) == (True, 50)


async def _all_sealed(house: House, sealer: Sealer) -> bool:
    await sealer.seal("AUDIT")
    return bool((await house.proven())["AUDIT"]["unsealed"] == 0)


# A sealer as a process, in as little as it needs.
SEALING = """
import asyncio, sys
from pathlib import Path
from placet.audit.sealer import Sealer
from placet.audit.trail import AuditTrail
from placet.identity import keys
from placet.identity.signing import EventSigner, EventVerifier
from placet.messaging.append import AuditWriter
from placet.messaging.archive import BusArchive
from placet.messaging.connection import Bus, BusSettings
from placet.messaging.seals import SealStream
from services.approval.adapters.seal_book import StreamSealBook
async def main():
    bus = await Bus.connect(BusSettings(sys.argv[1], "approval", Path(sys.argv[2]).read_text()))
    key = keys.read(Path(sys.argv[3]))
    seals = SealStream(bus, EventSigner(key), EventVerifier([key]))
    sealer = Sealer(StreamSealBook(seals, AuditTrail(AuditWriter(bus), "approval")), BusArchive(bus))
    print("up", flush=True)
    while True:
        await sealer.seal("AUDIT")
asyncio.run(main())
"""


async def test_sealer_killed_again_and_again_leaves_a_chain_that_goes_on(house: House) -> None:
    arguments = (house.rig.url, str(house.rig.seed_file("approval")), str(house.keys / "audit.private.jwk"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "libs")))}
    for killed in range(2):
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", SEALING, *arguments), cwd=ROOT, env=environment, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        assert await child.stdout.readline() == b"up\n"
        writing = asyncio.create_task(house.write(150))
        await asyncio.sleep(0.05 * killed)
        child.kill()
        await asyncio.gather(writing, child.wait())
    await house.sealer().seal("AUDIT")
    found = (await house.proven())["AUDIT"]
    assert (found["holds"], found["events"], found["unsealed"]) == (True, 300, 0)


async def test_verify_with_nothing_to_go_by_says_what_is_missing(tmp_path: Path) -> None:
    runner = CliRunner()
    for options, missing in (
        ((), "Give --nats"),
        (("--nats", "nats://127.0.0.1:9"), "--seed-file"),
        (("--export", str(tmp_path / "nowhere")), "no directory"),
        (("--export", str(tmp_path)), "no audit.public.jwk"),
    ):
        arguments = ["audit", "verify", "--state-dir", str(tmp_path / "state"), *options]
        ended = await asyncio.to_thread(runner.invoke, app, arguments)
        assert (ended.exit_code, missing in ended.stderr, ended.stdout) == (2, True, ""), ended.output
