"""What each bus user may do at all, table by table from the contracts: everything else reaches nobody (I4, C1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS, EVENTS, CommandSpec
from placet.contracts.topology import BUCKETS, DURABLES, OBJECT_BUCKETS, READERS, STREAMS, WRITERS
from placet.messaging.permissions import rights
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from tests.security.attacker import SERVICE_USERS, Attacker, concrete, configuration, counts

pytestmark = pytest.mark.spec("C1", "I4")
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


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    rig = NatsRig(tmp_path_factory.mktemp("nats"))
    await rig.start()
    found = House(rig, {user: await Attacker.connect(rig, user) for user in SERVICE_USERS})
    for spec in CALLS:
        owner = await rig.bus(spec.owner)

        async def serve(message: Msg, name: str = _name(spec)) -> None:
            found.served.append((name, message.data.decode()))
            await message.respond(b"{}")

        await owner.client.subscribe(subjects.command_filter("*", spec.owner, spec.name), queue=spec.owner, cb=serve)
        await owner.client.flush()
    yield found
    await rig.close()


def _name(spec: CommandSpec) -> str:
    return f"{spec.owner}.{spec.name}"


async def test_command_reaches_its_owner_from_its_callers_only(house: House) -> None:
    for user, attacker in house.attackers.items():
        for spec in CALLS:
            await attacker.ask(subjects.command("acme", spec.owner, spec.name), user.encode())
    for attacker in house.attackers.values():
        await attacker.settle()
    expected = {(_name(spec), caller) for spec in CALLS for caller in spec.callers}
    await until(lambda: len(house.served) >= len(expected))
    assert sorted(house.served) == sorted(expected)
    for user, attacker in house.attackers.items():
        allowed = {subjects.command("acme", spec.owner, spec.name) for spec in CALLS if user in spec.callers}
        answered = {message.subject.split(".")[-1].replace("_", ".") for message in attacker.answers}
        assert answered == {subject.replace("_", ".") for subject in allowed}
    _forget(house)


@pytest.mark.spec("A4", "A6")
@pytest.mark.parametrize(
    ("user", "owner", "command"),
    [
        ("agent", "approval", "decide"),
        ("agent", "approval", "propose"),
        ("agent", "tool-executor", "settle-effect"),
        ("agent", "tool-executor", "put-person"),
        ("agent", "tool-executor", "assess-action"),
        ("gateway", "approval", "propose"),
        ("gateway", "tool-executor", "assess-action"),
        ("gateway", "memory", "save-summary"),
        ("memory", "approval", "decide"),
        ("tool-executor", "approval", "decide"),
        ("auditor", "approval", "decide"),
    ],
)
def test_dangerous_command_is_not_among_the_rights_of(user: str, owner: str, command: str) -> None:
    """The same in plain words, so that a widened `callers` list is noticed by a reader."""
    assert subjects.command_filter("*", owner, command) not in rights(user).publish
    assert not any(">" in subject and ".cmd." in subject for subject in rights(user).publish)


async def test_run_is_queued_by_the_gateway_only(house: House) -> None:
    for user, attacker in house.attackers.items():
        before = (await counts(house.rig))["RUN_QUEUE"]
        await attacker.ask(subjects.command("acme", "agent", "start-run", f"run-by-{user}"), b"start")
        await _stored(house, {"RUN_QUEUE": before + (1 if user == "gateway" else 0)}, user)
    _forget(house)


async def test_event_is_stored_from_its_writers_only(house: House) -> None:
    writers = {writer.owner: writer.users for writer in WRITERS}
    stream_of = {
        "approval": "APPROVALS",
        "tool-executor": "EFFECTS",
        "agent": "RUNS",
        "audit": "AUDIT",
        "seal": "SEALS",
    }
    for user, attacker in house.attackers.items():
        before = await counts(house.rig)
        for spec in EVENTS:
            await attacker.ask(subjects.event("acme", spec.owner, spec.name, f"by-{user}"), b"{}")
        expected = {
            stream: before[stream] + sum(spec.owner == owner and user in writers[owner] for spec in EVENTS)
            for owner, stream in stream_of.items()
        }
        await _stored(house, expected, user)
    _forget(house)


async def _stored(house: House, expected: dict[str, int], user: str) -> None:
    """What `user` sent is stored in these streams to these counts and no further: first all of it, then a while."""
    await house.attackers[user].settle()

    async def enough() -> bool:
        found = await counts(house.rig)
        return all(found[stream] >= count for stream, count in expected.items())

    await until(enough, what=f"what {user} may store")
    await house.attackers[user].settle()
    found = await counts(house.rig)
    assert {stream: found[stream] for stream in expected} == expected, user


async def test_bucket_is_written_by_its_writers_only(house: House) -> None:
    for user, attacker in house.attackers.items():
        before = await counts(house.rig)
        for bucket in BUCKETS:
            await attacker.ask(f"$KV.{bucket.name}.acme.{user}", b"{}")
        await attacker.ask("$O.ORIGINALS.C.x", b"chunk")
        await attacker.settle()
        after = await counts(house.rig)
        changed = {name for name in ALL_STREAMS if after[name] != before[name]}
        allowed = {f"KV_{bucket.name}" for bucket in BUCKETS if user in bucket.writers}
        allowed |= {f"OBJ_{bucket.name}" for bucket in OBJECT_BUCKETS if user in bucket.users}
        assert changed == allowed, user
    _forget(house)


def _administration(stream: str) -> list[tuple[str, dict[str, object]]]:
    consumer = {"stream_name": stream, "config": {"durable_name": "evil", "ack_policy": "explicit"}}
    pushing = {
        "stream_name": stream,
        "config": {"name": "evil", "deliver_subject": "placet.acme.x", "ack_policy": "none"},
    }
    own = [durable.name for durable in DURABLES if durable.stream == stream]
    return [
        (f"STREAM.CREATE.{stream}", {"name": stream, "subjects": ["x.>"]}),
        (f"STREAM.UPDATE.{stream}", {"name": stream, "subjects": ["x.>"], "deny_delete": False}),
        (f"STREAM.DELETE.{stream}", {}),
        (f"STREAM.PURGE.{stream}", {}),
        (f"STREAM.MSG.DELETE.{stream}", {"seq": 1}),
        (f"STREAM.SNAPSHOT.{stream}", {"deliver_subject": "placet.acme.x"}),
        (f"STREAM.RESTORE.{stream}", {}),
        (f"STREAM.INFO.{stream}", {}),
        (f"CONSUMER.CREATE.{stream}", consumer),
        (f"CONSUMER.CREATE.{stream}.evil", pushing),
        (f"CONSUMER.DURABLE.CREATE.{stream}.evil", consumer),
        *((f"CONSUMER.DELETE.{stream}.{name}", {}) for name in own),
        *((f"CONSUMER.PAUSE.{stream}.{name}", {"pause_until": "2099-01-01T00:00:00Z"}) for name in own),
        (f"CONSUMER.LIST.{stream}", {}),
    ]


@pytest.mark.spec("L2")
@pytest.mark.parametrize("user", SERVICE_USERS)
async def test_streams_and_consumers_are_administered_by_no_service(house: House, user: str) -> None:
    attacker = house.attackers[user]
    before = await configuration(house.rig)
    for prefix in PREFIXES:
        for stream in ALL_STREAMS:
            for call, body in _administration(stream):
                await attacker.ask(f"{prefix}.{call}", json.dumps(body).encode())
        for call in ("STREAM.LIST", "STREAM.NAMES", "INFO", "SERVER.REMOVE", "META.LEADER.STEPDOWN"):
            await attacker.ask(f"{prefix}.{call}")
    for subject in ("$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.CORE.CONNZ", "$SYS.REQ.USER.INFO"):
        await attacker.ask(subject)
    await attacker.settle()
    assert [message.subject for message in attacker.answers] == []
    assert await configuration(house.rig) == before
    assert attacker.refusals


@pytest.mark.parametrize("user", SERVICE_USERS)
async def test_stream_is_read_by_its_readers_only(house: House, user: str) -> None:
    readable = {reader.stream for reader in READERS if reader.user == user}
    readable |= {f"KV_{bucket.name}" for bucket in BUCKETS if user in (*bucket.readers, *bucket.writers)}
    readable |= {f"OBJ_{bucket.name}" for bucket in OBJECT_BUCKETS if user in bucket.users}
    attacker = house.attackers[user]
    answered = set()
    for stream in ALL_STREAMS:
        attacker.answers.clear()
        for prefix in PREFIXES:
            await attacker.ask(f"{prefix}.DIRECT.GET.{stream}", b'{"seq":1}')
            await attacker.ask(f"{prefix}.DIRECT.GET.{stream}.some.subject")
            await attacker.ask(f"{prefix}.STREAM.MSG.GET.{stream}", b'{"seq":1}')
        await attacker.settle()
        if stream in readable:
            await until(lambda: bool(attacker.answers), what=f"{stream} answers {user}")
        if attacker.answers:
            answered.add(stream)
    assert answered == readable
    _forget(house)


@pytest.mark.spec("A10")
async def test_job_is_acknowledged_by_its_own_consumer_only(house: House) -> None:
    """Otherwise a service could make another one's work disappear."""
    provision = await house.rig.bus("provision")
    durable = next(one for one in DURABLES if one.name == "tool-executor__approved-v1")
    await provision.js.publish(subjects.event("acme", "approval", "approved", "p-pending"), b"{}")
    executor = await house.rig.bus("tool-executor")
    puller = await executor.js.pull_subscribe_bind(
        durable.name, stream=durable.stream, inbox_prefix=b"_INBOX_tool-executor."
    )
    fetched = await puller.fetch(10, timeout=2)
    for user in set(SERVICE_USERS) - {"tool-executor"}:
        for message in fetched:
            await house.attackers[user].send(message.reply, b"+TERM")
        await house.attackers[user].send(f"$JS.API.CONSUMER.MSG.NEXT.{durable.stream}.{durable.name}", b"10")
        await house.attackers[user].settle()
    info = await provision.js.consumer_info(durable.stream, durable.name)
    assert info.num_ack_pending == len(fetched) > 0
    await fetched[0].ack_sync()
    assert (await provision.js.consumer_info(durable.stream, durable.name)).num_ack_pending == len(fetched) - 1
    _forget(house)


@pytest.mark.parametrize("user", SERVICE_USERS)
async def test_others_traffic_is_overheard_by_nobody(house: House, user: str) -> None:
    """Neither commands (they carry grants), nor replies, nor what the server keeps for itself."""
    attacker = house.attackers[user]
    heard: list[str] = []

    async def listen(message: Msg) -> None:
        heard.append(message.subject)

    own = {subjects.command_filter("*", spec.owner, spec.name) for spec in CALLS if spec.owner == user}
    others = {subjects.command_filter("*", spec.owner, spec.name) for spec in COMMANDS} - own
    tapped = [
        ">",
        "placet.>",
        "placet.*.*.cmd.>",
        "_R_.>",
        "_INBOX.>",
        "$JS.>",
        "$JS.ACK.>",
        "$KV.>",
        "timers.>",
        "stored.>",
    ]
    tapped += [f"_INBOX_{other}.>" for other in SERVICE_USERS if other != user]
    for subject in (*tapped, *others):
        await attacker.bus.client.subscribe(subject, cb=listen)
        await attacker.bus.client.subscribe(subject, queue="approval", cb=listen)
    await attacker.settle()
    for spec in CALLS:
        caller = await house.rig.bus(spec.callers[0])
        await caller.client.request(subjects.command("acme", spec.owner, spec.name), b"a grant", timeout=2)
    gateway = await house.rig.bus("gateway")
    await gateway.js.publish(subjects.command("acme", "agent", "start-run", f"run-heard-by-{user}"), b"a grant")
    await attacker.settle()
    assert heard == []
    _forget(house)


@pytest.mark.parametrize("user", SERVICE_USERS)
def test_rights_are_narrow_by_construction(user: str) -> None:
    """No permission reaches beyond one owner, one stream or one bucket."""
    own = rights(user)
    for subject in own.publish:
        parts = subject.split(".")
        assert parts[0] in ("placet", "$JS", "core", "$KV", "$O", "timers"), subject
        assert subject not in (">", "*", "placet.>", "$JS.>", "$JS.API.>", "$KV.>", "$O.>", "core.>", "timers.>")
        if parts[0] == "placet":
            assert parts[2] != "*", subject
            assert parts[3] in ("cmd", "evt"), subject
        if subject.startswith(tuple(PREFIXES)):
            assert not any(word in subject for word in ("CREATE", "UPDATE", "DELETE", "PURGE", "RESTORE", "SNAPSHOT"))
    assert all(concrete(subject, "x").count(">") == 0 for subject in own.publish)
    inboxes = {subject for subject in own.subscribe if subject.startswith("_INBOX")}
    assert inboxes == {f"_INBOX_{user}.>"}
    if user == "auditor":
        # Looks at what is stored, by direct get, and nothing else: nothing it may send changes anything.
        assert {subject.split(".")[2:4][0] for subject in own.publish} <= {"DIRECT", "STREAM"}
        assert all(".GET." in subject for subject in own.publish)


def _forget(house: House) -> None:
    house.served.clear()
    for attacker in house.attackers.values():
        attacker.answers.clear()
        attacker.refusals.clear()
