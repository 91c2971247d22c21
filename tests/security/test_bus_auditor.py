"""The auditor's credentials: everything stored is seen, nothing can be sent (L1)."""

from __future__ import annotations

import pytest
from nats.aio.msg import Msg

from placet.contracts import subjects
from placet.contracts.envelope import Event
from placet.contracts.examples import example
from placet.contracts.registry import COMMANDS, EVENTS, EventSpec
from placet.identity.signing import EventSigner, EventVerifier
from placet.messaging.append import EXPECTED, EXPECTED_SUBJECT, Appender, AuditWriter, ConflictError, NewEvent
from placet.messaging.reading import stored
from placet.testkit.builders import Keys, viewed
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until
from tests.security.attacker import Attacker, configuration, counts

pytestmark = pytest.mark.spec("L1")
KEYS = Keys()
STREAMS = {
    "approval": "APPROVALS",
    "tool-executor": "EFFECTS",
    "knowledge": "DOCUMENTS",
    "agent": "RUNS",
    "seal": "SEALS",
}
WRITER = {"seal": "approval", "knowledge": "tool-executor"}  # where it is not the owner itself


OWNERS = ("approval", "tool-executor", "knowledge", "agent", "audit", "seal")
ONE_BY_ONE = tuple(f"placet.*.{owner}.evt.>" for owner in OWNERS)


async def _watch(rig: NatsRig, followed: tuple[str, ...] = ONE_BY_ONE) -> list[Msg]:
    """As any NATS client would: plain subscriptions on the documented subjects."""
    auditor = await rig.bus("auditor")
    seen: list[Msg] = []

    async def on_message(message: Msg) -> None:
        seen.append(message)

    for subject in followed:
        await auditor.client.subscribe(subject, cb=on_message)
    await auditor.client.flush()
    return seen


async def _write(rig: NatsRig, spec: EventSpec) -> None:
    data: Event = spec.model.model_validate(example(spec.model))
    entity = f"of-{spec.name}"
    if spec.owner == "audit":
        await AuditWriter(await rig.bus("tool-executor")).write("acme", spec.name, entity, data)
        return
    signers = {
        "approval": KEYS.approval_signer(),
        "tool-executor": KEYS.effect_signer(),
        "seal": EventSigner(KEYS.audit),
    }
    signer = signers.get(spec.owner)
    writer = WRITER.get(spec.owner, spec.owner)
    appender = Appender(await rig.bus(writer), spec.owner, STREAMS[spec.owner], signer)
    await appender.append("acme", NewEvent(spec.name, entity, data), 0)


@pytest.mark.parametrize(
    "followed",
    [("placet.*.*.evt.>",), ("placet.acme.*.evt.*.v1.*",), ONE_BY_ONE],
    ids=["every_owner_at_once", "one_tenant", "owner_by_owner"],
)
async def test_auditor_sees_every_stored_event_of_every_owner(own_rig: NatsRig, followed: tuple[str, ...]) -> None:
    seen = await _watch(own_rig, followed)
    for spec in EVENTS:
        await _write(own_rig, spec)
    expected = {subjects.event("acme", spec.owner, spec.name, f"of-{spec.name}") for spec in EVENTS}
    await until(lambda: len(seen) >= len(expected))
    assert sorted(message.subject for message in seen) == sorted(expected)
    for message in seen:
        owner = subjects.parse(message.subject).owner
        verifier = {
            "approval": KEYS.approval_verifier(),
            "tool-executor": KEYS.effect_verifier(),
            "seal": EventVerifier([KEYS.audit]),
        }.get(owner)
        event = stored(message.subject, 1, message.data, message.headers or {}, verifier)
        assert event is not None
        assert event.verified is (True if verifier else None), message.subject


@pytest.mark.spec("A2")
async def test_auditor_never_sees_an_event_that_was_not_stored(own_rig: NatsRig) -> None:
    seen = await _watch(own_rig)
    appender = Appender(await own_rig.bus("approval"), "approval", "APPROVALS", KEYS.approval_signer())
    await appender.append("acme", NewEvent("viewed", "p1", viewed("p1", "first")), 0)
    with pytest.raises(ConflictError):
        await appender.append("acme", NewEvent("viewed", "p1", viewed("p1", "loser")), 0)
    await appender.append("acme", NewEvent("viewed", "p2", viewed("p2", "last")), 0)
    await until(lambda: len(seen) == 2)
    assert not any(b"loser" in message.data for message in seen)


async def test_auditor_sees_no_command_and_so_no_grant(own_rig: NatsRig) -> None:
    auditor = await own_rig.bus("auditor")
    heard: list[str] = []

    async def listen(message: Msg) -> None:
        heard.append(message.subject)

    for subject in (">", "placet.>", "placet.*.*.cmd.>", "placet.*.agent.cmd.start-run.v1.*", "stored.>", "core.>"):
        await auditor.client.subscribe(subject, cb=listen)
    await auditor.client.flush()
    gateway = await own_rig.bus("gateway")
    await gateway.js.publish(subjects.command("acme", "agent", "start-run", "r1"), b"a grant")
    await _write(own_rig, next(spec for spec in EVENTS if spec.name == "run-started"))
    await auditor.client.flush()
    assert heard == []


async def test_auditor_can_send_nothing_at_all(own_rig: NatsRig) -> None:
    heard: list[str] = []

    async def listen(message: Msg) -> None:
        heard.append(message.subject)

    for user in ("approval", "tool-executor", "memory", "agent"):
        bus = await own_rig.bus(user)
        for spec in COMMANDS:
            if spec.owner == user and spec.reply:
                await bus.client.subscribe(subjects.command_filter("*", spec.owner, spec.name), cb=listen)
        await bus.client.flush()
    attacker = await Attacker.connect(own_rig, "auditor")
    before, settings = await counts(own_rig), await configuration(own_rig)
    events = [subjects.event("acme", spec.owner, spec.name, "p1") for spec in EVENTS]
    commands = [subjects.command("acme", spec.owner, spec.name, None if spec.reply else "r1") for spec in COMMANDS]
    others = ["anything", "_INBOX_gateway.x", "$JS.API.INFO", "core.api.INFO", "$KV.DIRECTORY.acme.mike", "timers.at.x"]
    headers = {EXPECTED: "0", EXPECTED_SUBJECT: "placet.acme.approval.evt.*.v1.p1"}
    for subject in (*events, *commands, *others, *(f"stored.{event}" for event in events)):
        await attacker.send(subject, b"{}")
        await attacker.send(subject, b"{}", headers=headers)
    await attacker.settle()
    assert await counts(own_rig) == before
    assert await configuration(own_rig) == settings
    assert heard == []
    assert len(attacker.refusals) >= len(events) + len(commands)
