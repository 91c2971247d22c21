"""The executor is killed while a document arrives, is read, is published: nothing is lost, nothing half there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.document_house import until
from tests.integration.killable_house import KillableHouse, killable_house

pytestmark = [pytest.mark.chaos, pytest.mark.spec("K1"), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[KillableHouse]:
    async with killable_house() as opened:
        yield opened


def _long(chunks: int) -> bytes:
    """Markdown with one chunk per section."""
    sections = (
        f"# Part {n}\n\nThe lighthouse keeper number {n} counts ships. {'Waves roll. ' * 40}" for n in range(chunks)
    )
    return "\n\n".join(sections).encode()


async def _progress(house: KillableHouse, document_id: str, version: int = 1) -> Any:
    query = "SELECT state, chunks_done, chunk_count FROM knowledge.versions WHERE document_id = :id AND version = :v"
    return (await house.sql(query, id=document_id, v=version))[0]


async def _chunks(house: KillableHouse, document_id: str, version: int) -> dict[str, list[int]]:
    """Ordinals per table; vectors and terms by the number in their chunk's id."""
    found = {}
    for table in ("chunk_bodies", "chunk_terms", "chunk_vectors"):
        rows = await house.sql(
            f"SELECT chunk_id FROM knowledge.{table} WHERE document_id = :id AND version = :v",
            id=document_id,
            v=version,
        )
        found[table] = sorted(int(row.chunk_id.rpartition("-")[2]) for row in rows)
    return found


async def test_reading_killed_in_the_middle_goes_on_and_shows_nothing_before_its_end(house: KillableHouse) -> None:
    first = b"# Lighthouse\n\nThe lighthouse keeper counts nothing.\n"
    document_id = await house.published(first)
    data = _long(260)
    assert (await house.upload("carol", data, document_id=document_id)).json()["version"] == 2

    async def in_the_middle() -> Any | None:
        row = await _progress(house, document_id, 2)
        assert row.state != "ready", "too quick to be killed"
        return row if row.chunks_done else None

    reached = await until(in_the_middle, every_s=0.02)
    house.kill()
    killed_at = await _progress(house, document_id, 2)
    assert (killed_at.state, killed_at.chunks_done >= reached.chunks_done) == ("indexing", True)
    house.spawn()
    await house.there("alice")
    items = (await house.as_("alice").get("/api/search", params={"q": "lighthouse keeper", "k": 20})).json()["items"]
    assert {item["version"] for item in items if item["document_id"] == document_id} == {1}
    view = await house.read("carol", document_id)
    assert (view["state"], view["version"], view["status"], view["latest_version"]) == ("ready", 1, "published", 2)
    for table, ordinals in (await _chunks(house, document_id, 2)).items():
        assert (table, ordinals) == (table, list(range(1, 261)))
    assert (await house.publish("carol", document_id)).json()["finish_reason"] == "success"
    source = await house.as_("carol").get(f"/api/documents/{document_id}/source?version=2")
    assert source.content == data
    items = (await house.as_("alice").get("/api/search", params={"q": "lighthouse keeper", "k": 20})).json()["items"]
    assert {item["version"] for item in items if item["document_id"] == document_id} == {2}


async def test_upload_killed_in_the_middle_goes_on_with_the_same_key(house: KillableHouse) -> None:
    data = b"<p>Short.</p><!-- " + b"".join(b"%08d" % n for n in range(2_000_000)) + b" -->"
    headers = {"Idempotency-Key": "killed-upload"}
    sending = asyncio.create_task(house.upload("carol", data, name="large.html", title="Large", headers=headers))

    async def some_parts() -> int | None:
        rows = await house.sql("SELECT cardinality(parts) AS n FROM knowledge.uploads WHERE title = 'Large'")
        return rows[0].n if rows and rows[0].n else None

    await until(some_parts)
    house.kill()
    broken = await sending
    assert broken.status_code in (503, 504)
    house.spawn()
    await house.there("carol")
    done = await house.upload("carol", data, name="large.html", title="Large", headers=headers)
    assert (done.status_code, done.json()["version"]) == (201, 1)
    document_id = done.json()["document_id"]
    assert (await house.read("carol", document_id))["state"] == "ready"
    assert (await house.publish("carol", document_id)).json()["finish_reason"] == "success"
    assert (await house.as_("carol").get(f"/api/documents/{document_id}/source")).content == data
    assert len(await house.sql("SELECT 1 FROM knowledge.documents WHERE title = 'Large'")) == 1


@pytest.mark.spec("A11", "G8", "W9")
async def test_publishing_killed_at_any_moment_takes_place_once_and_whole(house: KillableHouse) -> None:
    for delay_s in (0.05,):
        document_id = (await house.upload("carol", _long(30), title="Beacon")).json()["document_id"]
        assert (await house.read("carol", document_id))["state"] == "ready"
        carol = house.as_("carol")
        proposal = (await carol.post(f"/api/documents/{document_id}/publish-proposals")).json()
        path = f"/api/publish-proposals/{proposal['proposal_id']}/decisions"
        deciding = asyncio.create_task(carol.post(path, json={"approved": True}))
        await asyncio.sleep(delay_s)
        house.kill()
        await deciding
        published = await house.sql(
            "SELECT published_version FROM knowledge.documents WHERE document_id = :id", id=document_id
        )
        shown = await house.sql(
            "SELECT count(*) FILTER (WHERE published) AS shown, count(*) AS n FROM knowledge.chunk_terms"
            " WHERE document_id = :id",
            id=document_id,
        )
        assert shown[0].shown == (shown[0].n if published[0].published_version else 0)
        house.spawn()

        async def completed(proposal_id: str = proposal["proposal_id"]) -> dict[str, Any] | None:
            answer = await house.as_("carol").get(f"/api/proposals/{proposal_id}")
            view: dict[str, Any] = answer.json()
            return view if answer.status_code == 200 and view["status"] == "completed" else None

        assert (await until(completed))["finish_reason"] == "success"
        await house.there("alice")
        view = (await house.as_("alice").get(f"/api/documents/{document_id}")).json()
        assert (view["status"], view["version"], view["lock_version"]) == ("published", 1, 2)
        assert len(await house.sql("SELECT 1 FROM knowledge.publications WHERE document_id = :id", id=document_id)) == 1


async def _all_ready(house: KillableHouse, count: int) -> bool | None:
    rows = await house.sql("SELECT state FROM knowledge.versions WHERE tenant = 'harbour'")
    return True if [row.state for row in rows] == ["ready"] * count else None


@pytest.mark.spec("K2")
async def test_rebuilding_killed_in_the_middle_goes_on_and_searches_never_miss_a_part(house: KillableHouse) -> None:
    here = await house.tenant_of_its_own("harbour")
    document_id = await here.published(_long(40), who="kim", title="Pier")
    for n in range(4):
        await here.upload("kim", f"# Buoy {n}\n\nBuoy {n} is red.\n".encode(), title=f"Buoy {n}")
    chunks = "SELECT chunk_id, body FROM knowledge.chunk_bodies WHERE tenant = 'harbour' ORDER BY 1"
    await until(lambda: _all_ready(here, 5))
    before = await here.sql(chunks)
    kim = here.as_("kim")
    started = (await kim.post("/api/index/rebuilds")).json()
    assert (started["state"], started["total"]) == ("running", 5)
    path = f"/api/index/rebuilds/{started['rebuild_id']}"

    async def look() -> dict[str, Any]:
        query = {"q": "lighthouse keeper counts ships", "k": 20}
        while (answer := await kim.get("/api/search", params=query)).status_code in (503, 504):
            await asyncio.sleep(0.05)  # a busy machine: nothing was answered, so nothing was missed
        items = answer.json()["items"]
        assert len(items) == 20
        state: dict[str, Any] = (await kim.get(path)).json()
        return state

    async def in_the_middle() -> bool | None:
        state = await look()
        assert state["state"] == "running", "too quick to be killed"
        return True if state["done"] else None

    await until(in_the_middle, every_s=0.05)
    house.kill()
    house.spawn()
    await here.there("kim")
    joined = (await kim.post("/api/index/rebuilds")).json()
    assert joined["rebuild_id"] == started["rebuild_id"]

    async def finished() -> dict[str, Any] | None:
        state = await look()
        return state if state["state"] == "finished" else None

    ended = await until(finished)
    assert (ended["total"], ended["failed"]) == (started["total"], 0)
    assert ended["done"] == ended["total"]
    assert await here.sql(chunks) == before
    assert set(await here.found("kim", "lighthouse keeper counts ships")) == {document_id}
