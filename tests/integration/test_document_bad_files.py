"""Files that harm careless readers, from the HTTP door to the end: each fails with its reason, and the worker lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.integration import bad_files
from tests.integration.killable_house import KillableHouse, killable_house

pytestmark = [pytest.mark.spec("K1"), pytest.mark.timeout(400)]

WORKER_GROWS_BY = 150_000_000


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[KillableHouse]:
    async with killable_house() as opened:
        yield opened


def _bad() -> list[tuple[str, bytes, str]]:
    docx = bad_files.entity_bomb()
    return [
        ("empty.md", b"", "empty_file"),
        ("bomb.docx", bad_files.zip_bomb(), "expands_too_much"),
        ("lying-bomb.docx", bad_files.zip_bomb(20_000_000, declared=100), "corrupt"),
        ("entities.docx", docx, "corrupt"),
        ("pages.pdf", bad_files.long_pdf(10_000), "too_many_pages"),
        ("stream.pdf", bad_files.stream_bomb(), "no_text"),
        ("locked.pdf", bad_files.encrypted_pdf(), "encrypted"),
        ("pdf-called.md", bad_files.long_pdf(1), "type_mismatch"),
        ("docx-called.pdf", docx, "type_mismatch"),
        ("text-called.docx", b"just text", "corrupt"),
        ("program.exe", b"MZ\x90\x00", "unsupported_type"),
        ("broken.txt", "文".encode("utf-16-le") * 9 + b"\xff\x00", "bad_encoding"),
        ("half.md", "可用".encode()[:-1] + b"\xff\xfe\xfd", "bad_encoding"),
        ("nested.html", b"<div>" * 200_000 + b"x", "no_text"),
        ("confetti.txt", b"a\n\n" * 300_000, "too_large"),
        ("padded.html", b"<!--" + b"x" * 20_000_000 + b"-->", "corrupt"),
    ]


def _process(house: KillableHouse) -> Path:
    return Path(f"/proc/{house.process.pid}")


def _peak(house: KillableHouse) -> int:
    """The most that the executor itself has had in memory, in bytes, since it was last told to forget."""
    status = (_process(house) / "status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


async def _failure(house: KillableHouse, doors: asyncio.Semaphore, name: str, data: bytes) -> tuple[str, str, str]:
    async with doors:
        answer = await house.upload("carol", data, name=name, title=name)
    assert answer.status_code == 201, answer.text
    view = await house.read("carol", answer.json()["document_id"])
    assert view["failure"]["detail"]
    return name, view["state"], view["failure"]["reason"]


async def test_bad_files_fail_with_their_reasons_and_the_next_good_one_is_read(house: KillableHouse) -> None:
    first = await house.published(b"# First\n\nThe first albatross flies.\n", title="First")
    bad = _bad()
    (_process(house) / "clear_refs").write_text("5", encoding="ascii")
    before = _peak(house)
    doors = asyncio.Semaphore(4)
    found = await asyncio.gather(*(_failure(house, doors, name, data) for name, data, _ in bad))
    assert found == [(name, "failed", reason) for name, _, reason in bad]
    assert house.process.poll() is None, "the worker lives"
    assert _peak(house) - before < WORKER_GROWS_BY
    good = await house.published(b"# Next\n\nThe next albatross flies, too.\n", title="Next")
    assert set((await house.found("alice", "albatross flies"))[:2]) == {first, good}
    left = await house.sql(
        "SELECT b.document_id FROM knowledge.chunk_bodies b JOIN knowledge.versions v"
        " USING (tenant, document_id, version) WHERE v.state <> 'ready'"
    )
    assert left == []


async def test_file_of_200_megabytes_is_refused_at_the_door(house: KillableHouse) -> None:
    """Whether it says so before or is found out on the way, and the worker never hears of it."""

    async def streamed() -> AsyncIterator[bytes]:
        yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        for _ in range(200):
            yield b"x" * 1_000_000

    status, problem = await house.stream("carol", streamed())
    assert (status, b"payload_too_large" in problem) == (413, True)
    announced = await house.stream("carol", streamed(), size=200_000_000)
    assert (announced[0], b"payload_too_large" in announced[1]) == (413, True)
