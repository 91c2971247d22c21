"""Key-value buckets on a real server: compare-and-set, expiry, and no key that reads somebody else's (U2, I4)."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.subjects import BadSubjectError
from placet.contracts.topology import BUCKETS
from placet.messaging.kv import Entry, KeyConflictError, KeyValue
from placet.messaging.reading import EventReader
from placet.observability.context import new_id
from placet.testkit.nats import NatsRig
from placet.testkit.waiting import until


def _key() -> str:
    return f"acme.{new_id('run')}"


async def test_value_written_is_read_back_with_its_revision(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    assert await leases.get(key) is None
    first = await leases.put(key, b"one")
    second = await leases.put(key, b"two")
    assert second > first
    assert await leases.get(key) == Entry(b"two", second)


async def test_create_of_an_existing_key_is_a_conflict(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    revision = await leases.create(key, b"mine")
    with pytest.raises(KeyConflictError):
        await leases.create(key, b"yours")
    assert await leases.get(key) == Entry(b"mine", revision)


async def test_update_with_a_stale_revision_is_a_conflict(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    first = await leases.create(key, b"one")
    second = await leases.update(key, b"two", first)
    with pytest.raises(KeyConflictError):
        await leases.update(key, b"late", first)
    assert await leases.get(key) == Entry(b"two", second)


async def test_delete_with_a_stale_revision_is_a_conflict(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    first = await leases.create(key, b"one")
    second = await leases.update(key, b"two", first)
    with pytest.raises(KeyConflictError):
        await leases.delete(key, first)
    await leases.delete(key, second)
    assert await leases.get(key) is None


async def test_key_deleted_can_be_created_again_but_not_updated(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    first = await leases.create(key, b"one")
    await leases.delete(key)
    with pytest.raises(KeyConflictError):
        await leases.update(key, b"two", first)
    revision = await leases.create(key, b"three")
    assert await leases.get(key) == Entry(b"three", revision)


async def test_mark_of_a_deletion_does_not_stay_for_ever(connect: Any) -> None:
    bus = await connect("agent")
    leases, reader = KeyValue(bus, "LEASES"), EventReader(bus, "KV_LEASES")
    kept, brief = _key(), _key()
    for key, ttl_s in ((kept, None), (brief, 1)):
        await leases.create(key, b"one")
        await leases.delete(key, ttl_s=ttl_s)

    async def unmarked() -> bool:
        return await reader.raw_last(f"$KV.LEASES.{brief}") is None

    await until(unmarked, what="the mark to go")
    mark = await reader.raw_last(f"$KV.LEASES.{kept}")
    assert mark is not None
    assert (mark.headers["KV-Operation"], mark.headers["Nats-TTL"]) == ("DEL", "3600")
    assert await leases.create(brief, b"two") > 0
    assert await leases.create(kept, b"two") > 0


def test_every_bucket_from_which_keys_are_deleted_forgets_their_marks() -> None:
    """A person is never deleted from the directory, but made inactive: it alone keeps everything."""
    assert {bucket.name for bucket in BUCKETS if not (bucket.ttl_s or bucket.key_ttl)} == {"DIRECTORY"}


async def _outcome(work: Any) -> str:
    try:
        await work
    except KeyConflictError:
        return "conflict"
    return "won"


@pytest.mark.spec("U2")
@pytest.mark.parametrize("before", ["absent", "deleted"])
async def test_create_by_many_has_exactly_one_winner(connect: Any, before: str) -> None:
    buckets = [KeyValue(await connect("agent"), "LEASES") for _ in range(4)]
    for _ in range(5):
        key = _key()
        if before == "deleted":
            await buckets[0].create(key, b"old")
            await buckets[0].delete(key)
        race = [_outcome(buckets[number % 4].create(key, b"%d" % number)) for number in range(24)]
        assert Counter(await asyncio.gather(*race)) == {"won": 1, "conflict": 23}


@pytest.mark.spec("U2")
async def test_update_by_many_from_one_revision_has_exactly_one_winner(connect: Any) -> None:
    buckets = [KeyValue(await connect("agent"), "LEASES") for _ in range(4)]
    key = _key()
    revision = await buckets[0].create(key, b"0")
    for _ in range(5):
        race = [_outcome(buckets[number % 4].update(key, b"%d" % number, revision)) for number in range(24)]
        assert Counter(await asyncio.gather(*race)) == {"won": 1, "conflict": 23}
        entry = await buckets[0].get(key)
        assert entry is not None
        revision = entry.revision


@pytest.mark.spec("U2")
async def test_lease_not_renewed_expires_and_can_be_taken(connect: Any) -> None:
    mine, yours = KeyValue(await connect("agent"), "LEASES"), KeyValue(await connect("agent"), "LEASES")
    key = _key()
    await mine.create(key, b"mine", ttl_s=1)
    with pytest.raises(KeyConflictError):
        await yours.create(key, b"yours", ttl_s=1)

    async def gone() -> bool:
        return await yours.get(key) is None

    await until(gone, what="the lease to expire")
    taken = await yours.create(key, b"yours", ttl_s=30)
    with pytest.raises(KeyConflictError):
        await mine.update(key, b"mine again", taken - 1, ttl_s=30)
    assert await mine.get(key) == Entry(b"yours", taken)


@pytest.mark.spec("U2")
async def test_lease_renewed_outlives_its_first_term(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    revision = await leases.create(key, b"w", ttl_s=1)
    for _ in range(4):
        await asyncio.sleep(0.4)
        revision = await leases.update(key, b"w", revision, ttl_s=1)
    assert await leases.get(key) == Entry(b"w", revision)


@pytest.mark.spec("I4")
@pytest.mark.parametrize("key", ["acme.*", "*.alice", ">", "acme.>", "*", "acme..alice", "", "acme. ", "acme.a\n"])
async def test_key_with_a_wildcard_reads_and_writes_nothing(connect: Any, key: str) -> None:
    bucket = KeyValue(await connect("tool-executor"), "DIRECTORY")
    await bucket.put("acme.alice", b"alice's entry")
    assert await bucket.get(key) is None
    for write in (bucket.put(key, b"x"), bucket.create(key, b"x"), bucket.update(key, b"x", 1), bucket.delete(key)):
        with pytest.raises(BadSubjectError):
            await write
    entry = await bucket.get("acme.alice")
    assert entry is not None
    assert entry.value == b"alice's entry"


async def test_bucket_of_another_service_is_not_available(connect: Any) -> None:
    bus = await connect("memory")
    bus.js._timeout = 0.3
    with pytest.raises(PlacetError) as caught:
        await KeyValue(bus, "DIRECTORY").get("acme.alice")
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


async def test_bucket_while_the_bus_is_down_is_unavailable_never_empty(own_rig: NatsRig) -> None:
    """ "Not there" and "cannot be read" must differ: an unread directory entry must not look like a free name."""
    bus = await own_rig.bus("tool-executor")
    directory = KeyValue(bus, "DIRECTORY")
    await directory.put("acme.alice", b"x")
    own_rig.kill9()
    await until(lambda: not bus.client.is_connected)
    for work in (directory.get("acme.alice"), directory.put("acme.alice", b"y"), directory.create("acme.bob", b"z")):
        with pytest.raises(PlacetError) as caught:
            await work
        assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    await own_rig.start_bare()
    await until(bus.ready)
    entry = await directory.get("acme.alice")
    assert entry is not None
    assert entry.value == b"x"
    assert await directory.get("acme.bob") is None


async def test_key_changed_by_many_at_once_loses_no_change(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()

    def one_more(value: bytes | None) -> bytes:
        return str(int(value or b"0") + 1).encode()

    await asyncio.gather(*(leases.change(key, one_more, attempts=100) for _ in range(10)))
    entry = await leases.get(key)
    assert entry is not None
    assert entry.value == b"10"


async def test_key_whose_change_is_none_is_left_as_it_is(connect: Any) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    revision = await leases.put(key, b"1")
    await leases.change(key, lambda _: None, attempts=1)
    assert await leases.get(key) == Entry(b"1", revision)


async def test_key_that_others_change_first_each_time_is_a_conflict(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases, key = KeyValue(await connect("agent"), "LEASES"), _key()
    get = leases.get

    async def late(of: str) -> Entry | None:
        entry = await get(of)
        await leases.put(of, b"theirs")
        return entry

    monkeypatch.setattr(leases, "get", late)
    with pytest.raises(KeyConflictError):
        await leases.change(key, lambda _: b"ours", attempts=3)
    entry = await get(key)
    assert entry is not None
    assert entry.value == b"theirs"
