"""Reply-subject injection: nobody outside CORE makes the server, or a responder, write where it may not (A2, G8).

A NATS server does not check the reply subject of a request. Whoever may send a request could name a stream's subject
there and have the answer stored: an acknowledgement, a stored payload, a colleague's reply. Accounts prevent it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS
from placet.contracts.topology import DURABLES
from placet.messaging.append import Appender, NewEvent
from placet.messaging.permissions import rights
from placet.messaging.reading import EventReader
from placet.testkit.builders import Keys, approved, signed_message, viewed
from placet.testkit.nats import NatsRig
from tests.security.attacker import Attacker, concrete, counts

pytestmark = pytest.mark.spec("A2", "I4")
KEYS = Keys()
FORGED = signed_message(KEYS.effect_signer(), subjects.event("acme", "approval", "approved", "victim"), approved())
# Where a stored message would have power: decisions, effects, runs, people's rights, timers, the record.
TARGETS = {
    "placet.acme.approval.evt.approved.v1.victim": "APPROVALS",
    "placet.acme.tool-executor.evt.executed.v1.victim": "EFFECTS",
    "placet.acme.agent.evt.run-completed.v1.victim": "RUNS",
    "$KV.DIRECTORY.acme.victim": "KV_DIRECTORY",
    "timers.fire.approval.acme.victim": "TIMERS",
    "$O.ORIGINALS.M.victim": "OBJ_ORIGINALS",
}
_NUMBERS = itertools.count()


def _fresh(target: str) -> str:
    """Never the same subject twice: the server lets a responder answer one reply subject only once."""
    return f"{target}-{next(_NUMBERS)}"


@pytest.fixture(scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[NatsRig]:
    """Every service answers every command with a forged approval, and every stream holds one to be sent out."""
    rig = NatsRig(tmp_path_factory.mktemp("nats"))
    await rig.start()
    for spec in COMMANDS:
        if spec.reply is None:
            continue
        owner = await rig.bus(spec.owner)

        async def answer(message: Msg) -> None:
            await message.respond(FORGED.payload)

        await owner.client.subscribe(subjects.command_filter("*", spec.owner, spec.name), cb=answer)
        await owner.client.flush()
    agent, gateway, approval = await rig.bus("agent"), await rig.bus("gateway"), await rig.bus("approval")
    await agent.js.publish(subjects.event("acme", "agent", "run-started", "run-1"), FORGED.payload)
    for number in range(50):
        await gateway.js.publish(subjects.command("acme", "agent", "start-run", f"run-{number}"), FORGED.payload)
    completed = subjects.event("acme", "approval", "completed", "prop-1")
    for _ in range(50):
        await approval.js.publish(completed, FORGED.payload)
    yield rig
    await rig.close()


async def _stored(rig: NatsRig) -> dict[str, int]:
    now = await counts(rig)
    return {stream: now[stream] for stream in TARGETS.values()}


def _stored_for(user: str) -> dict[str, int]:
    """What a user may not change; the agent's own run events are its own."""
    return {stream: 0 for stream in TARGETS.values() if not (user == "agent" and stream == "RUNS")}


async def _attack(rig: NatsRig, user: str, sendings: list[tuple[str, bytes]]) -> dict[str, int]:
    """Send everything once per target, naming the target as reply subject; what the streams gained."""
    attacker = await Attacker.connect(rig, user)
    before = await _stored(rig)
    for target in TARGETS:
        for subject, payload in sendings:
            await attacker.send(subject, payload, reply=_fresh(target))
    await attacker.settle()
    gained = {stream: count - before[stream] for stream, count in (await _stored(rig)).items()}
    return {stream: gained[stream] for stream in _stored_for(user)}


@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_command_with_a_stream_subject_as_its_reply_stores_nothing(rig: NatsRig, user: str) -> None:
    commands = [(subjects.command("acme", spec.owner, spec.name), b"{}") for spec in COMMANDS]
    assert await _attack(rig, user, commands) == _stored_for(user)


@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_publish_with_a_stream_subject_as_its_reply_plants_no_acknowledgement(rig: NatsRig, user: str) -> None:
    publishes = [
        (subjects.command("acme", "agent", "start-run", "run-x"), FORGED.payload),
        (subjects.event("acme", "agent", "run-started", "run-x"), FORGED.payload),
        (subjects.event("acme", "audit", "tool-decided", "run-x"), FORGED.payload),
        ("$KV.LEASES.acme.run-x", FORGED.payload),
        ("$KV.IDEMPOTENCY.acme.key", FORGED.payload),
    ]
    assert await _attack(rig, user, publishes) == _stored_for(user)


@pytest.mark.parametrize("prefix", ["core.api", "$JS.API"])
@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_read_with_a_stream_subject_as_its_reply_plants_no_payload(rig: NatsRig, user: str, prefix: str) -> None:
    run = subjects.event("acme", "agent", "run-started", "run-1")
    queued = subjects.command("acme", "agent", "start-run", "run-1")
    reads = [
        (f"{prefix}.DIRECT.GET.RUNS", json.dumps({"seq": 1}).encode()),
        (f"{prefix}.DIRECT.GET.RUNS", json.dumps({"seq": 1, "next_by_subj": run, "batch": 10}).encode()),
        (f"{prefix}.DIRECT.GET.RUNS.{run}", b""),
        (f"{prefix}.DIRECT.GET.RUN_QUEUE.{queued}", b""),
        (f"{prefix}.STREAM.MSG.GET.RUNS", json.dumps({"seq": 1}).encode()),
        (f"{prefix}.STREAM.MSG.GET.APPROVALS", json.dumps({"seq": 1}).encode()),
    ]
    assert await _attack(rig, user, reads) == _stored_for(user)


@pytest.mark.parametrize("prefix", ["core.api", "$JS.API"])
@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_fetch_with_a_stream_subject_as_its_reply_plants_no_job(rig: NatsRig, user: str, prefix: str) -> None:
    fetches = [
        (f"{prefix}.CONSUMER.{call}.{durable.stream}.{durable.name}", body)
        for durable in DURABLES
        for call, body in (("MSG.NEXT", b'{"batch":5,"expires":1000000000}'), ("MSG.NEXT", b"1"), ("INFO", b""))
    ]
    assert await _attack(rig, user, fetches) == _stored_for(user)


@pytest.mark.parametrize("prefix", ["core.api", "$JS.API"])
@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_consumer_delivering_to_a_stream_subject_cannot_be_created(rig: NatsRig, user: str, prefix: str) -> None:
    attacker = await Attacker.connect(rig, user)
    before = await _stored(rig)
    for stream in ("RUNS", "RUN_QUEUE", "APPROVALS", "AUDIT"):
        for number, target in enumerate(TARGETS):
            config = {
                "name": f"evil{number}",
                "deliver_subject": _fresh(target),
                "ack_policy": "none",
                "deliver_policy": "all",
            }
            body = json.dumps({"stream_name": stream, "config": config}).encode()
            await attacker.ask(f"{prefix}.CONSUMER.CREATE.{stream}.evil{number}", body)
            await attacker.ask(f"{prefix}.CONSUMER.CREATE.{stream}", body)
    await attacker.settle()
    assert attacker.answers == []
    gained = {stream: count - before[stream] for stream, count in (await _stored(rig)).items()}
    assert {stream: gained[stream] for stream in _stored_for(user)} == _stored_for(user)


@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_direct_publish_in_ones_own_account_stores_nothing_and_is_seen_by_nobody(rig: NatsRig, user: str) -> None:
    attacker = await Attacker.connect(rig, user)
    auditor = await rig.bus("auditor")
    seen: list[str] = []

    async def watch(message: Msg) -> None:
        if "victim" in message.subject:
            seen.append(message.subject)

    for owner in ("approval", "tool-executor", "agent", "audit"):
        await auditor.client.subscribe(f"placet.*.{owner}.evt.>", cb=watch)
    await auditor.client.flush()
    before = await _stored(rig)
    targets = [_fresh(target) for target, stream in TARGETS.items() if stream in _stored_for(user)]
    for target in targets:
        for subject in (target, f"stored.{target}", f"core.{target}"):
            await attacker.send(subject, FORGED.payload)
    await attacker.settle()
    await auditor.client.flush()
    gained = {stream: count - before[stream] for stream, count in (await _stored(rig)).items()}
    assert {stream: gained[stream] for stream in _stored_for(user)} == _stored_for(user)
    assert seen == []


@pytest.mark.parametrize("user", ["agent", "gateway", "auditor"])
async def test_everything_a_user_may_send_with_any_reply_stores_nothing_elsewhere(rig: NatsRig, user: str) -> None:
    """All the rights there are, generated from the contracts: a right added tomorrow is attacked tomorrow."""
    sendings = [(concrete(subject, "x.y"), FORGED.payload) for subject in sorted(rights(user).publish)]
    assert len(sendings) > 5
    assert await _attack(rig, user, sendings) == _stored_for(user)


async def test_injection_inside_core_does_store_which_is_why_events_are_signed(rig: NatsRig) -> None:
    """Guards the tests above (the attack works where accounts do not separate) and shows the second wall."""
    target = subjects.event("acme", "approval", "approved", "prop-inside")
    executor = await Attacker.connect(rig, "tool-executor")
    before = (await counts(rig))["APPROVALS"]
    await executor.send(subjects.command("acme", "approval", "propose"), b"{}", reply=target)
    await executor.settle()
    assert (await counts(rig))["APPROVALS"] == before + 1
    reader = EventReader(await rig.bus("approval"), "APPROVALS", KEYS.approval_verifier())
    (planted,) = await reader.entity("acme", "approval", "prop-inside")
    assert planted.verified is False


async def test_genuine_append_is_counted_by_these_tests(rig: NatsRig) -> None:
    before = await _stored(rig)
    appender = Appender(await rig.bus("approval"), "approval", "APPROVALS", KEYS.approval_signer())
    await appender.append("acme", NewEvent("viewed", "prop-genuine", viewed("prop-genuine")), 0)
    assert (await _stored(rig))["APPROVALS"] == before["APPROVALS"] + 1
