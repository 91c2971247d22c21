"""Original files on a real server: byte for byte, newest wins, damage is told from absence (K1)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from typing import Any

import orjson
import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.messaging.connection import Bus
from placet.messaging.objects import _CHUNK, ObjectStore
from placet.observability.context import new_id


def _meta_subject(key: str) -> str:
    return f"$O.ORIGINALS.M.{base64.urlsafe_b64encode(key.encode()).decode()}"


async def _meta(bus: Bus, key: str) -> dict[str, Any]:
    message = await bus.js.get_last_msg("OBJ_ORIGINALS", _meta_subject(key))
    document: dict[str, Any] = orjson.loads(message.data or b"")
    return document


@pytest.mark.spec("K1")
@pytest.mark.parametrize("size", [0, 1, _CHUNK - 1, _CHUNK, _CHUNK + 1, 3 * _CHUNK, 2_000_003])
async def test_original_is_read_back_byte_for_byte(connect: Any, size: int) -> None:
    store, key, data = ObjectStore(await connect("tool-executor"), "ORIGINALS"), new_id("doc"), os.urandom(size)
    await store.put(key, data)
    assert await store.get(key) == data


@pytest.mark.parametrize("key", ["acme/doc 1/v2.pdf", "差旅政策.pdf", "a.b.*.>", "x" * 300, "line\nbreak"])
async def test_original_under_any_key_is_its_own(connect: Any, key: str) -> None:
    store = ObjectStore(await connect("tool-executor"), "ORIGINALS")
    await store.put(key, key.encode())
    await store.put(key + "2", b"another")
    assert await store.get(key) == key.encode()


async def test_original_absent_is_a_key_error(connect: Any) -> None:
    with pytest.raises(KeyError):
        await ObjectStore(await connect("tool-executor"), "ORIGINALS").get(new_id("doc"))


async def test_original_overwritten_reads_as_the_newest(connect: Any) -> None:
    store, key = ObjectStore(await connect("tool-executor"), "ORIGINALS"), new_id("doc")
    await store.put(key, b"first" * 50_000)
    await store.put(key, b"second")
    assert await store.get(key) == b"second"


async def test_original_stored_again_unchanged_takes_no_space(connect: Any) -> None:
    bus = await connect("tool-executor")
    store, key = ObjectStore(bus, "ORIGINALS"), new_id("doc")
    await store.put(key, b"same")
    before = await _meta(bus, key)
    await store.put(key, b"same")
    assert await _meta(bus, key) == before


async def test_original_written_by_many_at_once_is_one_of_them_whole(connect: Any) -> None:
    stores = [ObjectStore(await connect("tool-executor"), "ORIGINALS") for _ in range(3)]
    key = new_id("doc")
    versions = [bytes([number]) * (_CHUNK + number) for number in range(6)]
    await asyncio.gather(*(stores[number % 3].put(key, data) for number, data in enumerate(versions)))
    assert await stores[0].get(key) in versions


async def _damaged(store: ObjectStore, key: str) -> None:
    with pytest.raises(PlacetError) as caught:
        await store.get(key)
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


async def test_original_with_changed_bytes_is_reported_as_damaged(connect: Any) -> None:
    bus = await connect("tool-executor")
    store, key, other = ObjectStore(bus, "ORIGINALS"), new_id("doc"), new_id("doc")
    await store.put(key, b"the original")
    await store.put(other, b"a forgery...")
    forged = await _meta(bus, key) | {"nuid": (await _meta(bus, other))["nuid"]}
    await bus.js.publish(_meta_subject(key), orjson.dumps(forged), headers={"Nats-Rollup": "sub"})
    await _damaged(store, key)


async def test_original_with_a_lost_chunk_is_reported_as_damaged(connect: Any) -> None:
    bus, provision = await connect("tool-executor"), await connect("provision")
    store, key = ObjectStore(bus, "ORIGINALS"), new_id("doc")
    await store.put(key, os.urandom(2 * _CHUNK))
    subject = f"$O.ORIGINALS.C.{(await _meta(bus, key))['nuid']}"
    chunk = await bus.js.get_last_msg("OBJ_ORIGINALS", subject)
    await provision.js.delete_msg("OBJ_ORIGINALS", chunk.seq)
    await _damaged(store, key)


async def test_original_shorter_than_described_is_reported_as_damaged(connect: Any) -> None:
    bus = await connect("tool-executor")
    store, key = ObjectStore(bus, "ORIGINALS"), new_id("doc")
    await store.put(key, b"whole text")
    cut = await _meta(bus, key) | {"size": 5}
    await bus.js.publish(_meta_subject(key), orjson.dumps(cut), headers={"Nats-Rollup": "sub"})
    await _damaged(store, key)


async def test_original_of_another_service_is_not_available(connect: Any) -> None:
    bus = await connect("approval")
    bus.js._timeout = 0.3
    with pytest.raises(PlacetError) as caught:
        await ObjectStore(bus, "ORIGINALS").get("any")
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE


async def test_object_slice_is_read_without_the_rest_and_is_empty_behind_the_end(connect: Any) -> None:
    store, key, data = ObjectStore(await connect("tool-executor"), "ORIGINALS"), new_id("doc"), os.urandom(300_001)
    await store.put(key, data)
    for offset, limit in ((0, 10), (131_071, 2), (131_072, 131_072), (262_100, 50_000), (300_000, 1), (300_001, 5)):
        assert await store.read(key, offset, limit) == data[offset : offset + limit]
    with pytest.raises(KeyError):
        await store.read(new_id("doc"), 0, 1)


async def test_object_of_another_program_is_read_in_slices_too(connect: Any) -> None:
    bus = await connect("tool-executor")
    store, key, data = ObjectStore(bus, "ORIGINALS"), new_id("doc"), os.urandom(200_000)
    await store.put(key, data)
    described = await _meta(bus, key)
    del described["metadata"]
    await bus.js.publish(_meta_subject(key), orjson.dumps(described), headers={"Nats-Rollup": "sub"})
    assert await store.read(key, 150_000, 1_000) == data[150_000:151_000]


async def test_object_staged_in_parts_is_seen_only_when_it_is_adopted_whole(connect: Any) -> None:
    store, key, upload = ObjectStore(await connect("tool-executor"), "ORIGINALS"), new_id("doc"), new_id("up")
    data = os.urandom(2_500)
    digest = hashlib.sha256(data).hexdigest()
    places = [await store.stage(upload, n, data[n * 1000 : n * 1000 + 1000]) for n in range(3)]
    assert await store.stage(upload, 1, data[1000:2000]) == places[1]
    with pytest.raises(KeyError):
        await store.get(key)
    with pytest.raises(ValueError, match="not the file"):
        await store.adopt(upload, key, places, part=1000, size=2_500, sha256="0" * 64)
    with pytest.raises(ValueError, match="not the file"):
        await store.adopt(upload, key, places[:2], part=1000, size=2_500, sha256=digest)
    await store.adopt(upload, key, places, part=1000, size=2_500, sha256=digest)
    assert await store.get(key) == data
    assert await store.read(key, 999, 1_002) == data[999:2001]
    await store.discard(upload, key)
    assert await store.get(key) == data


async def test_object_uploaded_again_rests_on_the_first_parts(connect: Any) -> None:
    store, key, data = ObjectStore(await connect("tool-executor"), "ORIGINALS"), new_id("doc"), b"the same bytes"
    digest = hashlib.sha256(data).hexdigest()
    for _ in range(2):
        upload = new_id("up")
        places = [await store.stage(upload, 0, data)]
        await store.adopt(upload, key, places, part=1000, size=len(data), sha256=digest)
        await store.discard(upload, key)
    assert await store.get(key) == data
