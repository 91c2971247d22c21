"""How many files may arrive at a time, and how long one may keep its place."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.document_house import DocumentHouse, until

pytestmark = pytest.mark.spec("K1")

HEAD = (
    b'--b\r\nContent-Disposition: form-data; name="title"\r\n\r\nSlow\r\n'
    b'--b\r\nContent-Disposition: form-data; name="knowledge_base_id"\r\n\r\nkb-policies\r\n'
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="slow.md"\r\n\r\n# Slow\n\n'
)
END = b"It came in the end.\r\n--b--\r\n"


@asynccontextmanager
async def _door(house: DocumentHouse, **settings: Any) -> AsyncIterator[DocumentHouse]:
    """Another gateway in front of the same house."""
    door = DocumentHouse(house.governance)
    await door.start(**settings)
    try:
        yield door
    finally:
        await door.stop()


async def _halted(release: asyncio.Event) -> AsyncIterator[bytes]:
    yield HEAD
    await release.wait()
    yield END


async def test_uploads_beyond_eight_at_once_are_refused_until_a_place_is_free(document_house: DocumentHouse) -> None:
    async with _door(document_house) as door:
        release = asyncio.Event()
        places = door.gateway.app.state.ports.uploads.places
        arriving = [asyncio.create_task(door.stream("carol", _halted(release))) for _ in range(8)]

        async def full() -> bool | None:
            return places.locked() or None

        await until(full, every_s=0.02)
        ninth = await door.upload("carol")
        assert (ninth.status_code, ninth.json()["code"]) == (429, "rate_limited")
        release.set()
        assert [status for status, _ in await asyncio.gather(*arriving)] == [201] * 8
        assert (await door.upload("carol")).status_code == 201


async def test_upload_that_falls_silent_gives_its_place_back(document_house: DocumentHouse) -> None:
    async with _door(document_house, gateway_upload_silence_s=0.3, gateway_uploads_at_once=1) as door:
        status, problem = await door.stream("carol", _halted(asyncio.Event()))
        assert (status, b"invalid_request" in problem) == (422, True)
        assert (await door.upload("carol")).status_code == 201


async def test_upload_that_drips_for_too_long_gives_its_place_back(document_house: DocumentHouse) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        yield HEAD
        while True:
            await asyncio.sleep(0.02)
            yield b"."

    async with _door(document_house, gateway_upload_wait_s=0.5, gateway_uploads_at_once=1) as door:
        status, problem = await door.stream("carol", dripping())
        assert (status, b"invalid_request" in problem) == (422, True)
        assert (await door.upload("carol")).status_code == 201
