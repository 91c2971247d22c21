"""What each bus user may do at all, table by table from the contracts: everything else reaches nobody (I4, C1)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from placet.contracts import subjects
from placet.contracts.registry import EVENTS
from placet.contracts.topology import BUCKETS, OBJECT_BUCKETS, WRITERS
from placet.messaging.permissions import rights
from placet.testkit.waiting import until
from tests.security.attacker import SERVICE_USERS, concrete, counts
from tests.security.bus_house import ALL_STREAMS, CALLS, PREFIXES, House, forget, name_of, open_house

pytestmark = pytest.mark.spec("C1", "I4")


@pytest.fixture(scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    async with open_house(tmp_path_factory.mktemp("nats")) as opened:
        yield opened


async def test_command_reaches_its_owner_from_its_callers_only(house: House) -> None:
    for user, attacker in house.attackers.items():
        for spec in CALLS:
            await attacker.ask(subjects.command("acme", spec.owner, spec.name), user.encode())
    for attacker in house.attackers.values():
        await attacker.settle()
    expected = {(name_of(spec), caller) for spec in CALLS for caller in spec.callers}
    await until(lambda: len(house.served) >= len(expected))
    assert sorted(house.served) == sorted(expected)
    for user, attacker in house.attackers.items():
        allowed = {subjects.command("acme", spec.owner, spec.name) for spec in CALLS if user in spec.callers}
        answered = {message.subject.split(".")[-1].replace("_", ".") for message in attacker.answers}
        assert answered == {subject.replace("_", ".") for subject in allowed}
    forget(house)


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
    forget(house)


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
    forget(house)


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
    forget(house)


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
