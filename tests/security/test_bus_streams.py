"""What each bus user may do to streams and consumers, table by table from the contracts (I4, C1)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS
from placet.contracts.topology import BUCKETS, DURABLES, OBJECT_BUCKETS, READERS
from placet.testkit.waiting import until
from tests.security.attacker import SERVICE_USERS, configuration
from tests.security.bus_house import ALL_STREAMS, CALLS, PREFIXES, House, forget, open_house

pytestmark = pytest.mark.spec("C1", "I4")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with open_house(tmp_path_factory.mktemp("nats")) as opened:
        yield opened


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
    forget(house)


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
    forget(house)


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
    forget(house)
