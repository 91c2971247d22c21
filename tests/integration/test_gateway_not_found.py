"""What is absent and what one may not see look the same (I3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
from gateway_rig import House, is_problem, open_house

from placet.messaging.reading import EventReader


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


NOT_THERE = [
    "/api/runs/run-absent",
    "/api/runs/run-absent/events",
    "/api/runs/a.b",
    "/api/runs/*",
    "/api/runs/%3E",
    "/api/runs/" + quote("运行"),
    "/api/runs/" + "x" * 129,
    "/api/documents/doc-hidden",
    "/api/documents/doc-hidden/source",
    "/api/proposals/prop-absent",
    "/api/proposals/prop-absent/events",
    "/api/proposals/..%2F..%2Fetc",
    "/api/conversations/none/memory",
    "/api/directory/users/alice",
    "/api/directory/users/" + quote("a b"),
    "/api/no-such-route",
    "/api/runs/",
    "/api/runs/run-1/",
    "/nothing",
]


@pytest.mark.spec("I3")
async def test_not_found_body_is_the_same_bytes_for_everything_absent_or_invisible(house: House) -> None:
    client = house.as_("bob")
    run = (await house.as_("alice").post("/api/runs", json={"question": "hold"})).json()["run_id"]
    others = (f"/api/runs/{run}", f"/api/runs/{run}/events", "/api/proposals/prop-1")
    bobs_view = [await client.get(path) for path in (*NOT_THERE, *others)]
    bobs_view.append(await client.post(f"/api/runs/{run}/cancel"))
    bobs_view.append(await house.as_("alice", "globex").get(f"/api/runs/{run}"))
    assert {answer.status_code for answer in bobs_view} == {404}
    assert len({answer.content for answer in bobs_view}) == 1
    is_problem(bobs_view[0], 404, "not_found")
    assert {name for answer in bobs_view for name in answer.headers if name not in ("date", "x-request-id")} == {
        "cache-control",
        "content-length",
        "content-type",
        "server",
        "x-content-type-options",
    }


@pytest.mark.spec("I3")
async def test_not_found_run_of_another_person_takes_the_same_work_and_is_audited(house: House) -> None:
    run = (await house.as_("alice").post("/api/runs", json={"question": "hold"})).json()["run_id"]
    await asyncio.sleep(0.2)
    for path in (run, "run-nowhere"):
        await house.as_("bob").get(f"/api/runs/{path}")
    bus = await house.nats.bus("approval")
    reader = EventReader(bus, "AUDIT")
    notes = []
    for entity in (run, "run-nowhere"):
        records = await reader.entity("acme", "audit", entity)
        assert [record.name for record in records] == ["access-denied"]
        data = records[0].envelope.data
        assert (data["actor"], data["service"], data["action"]) == ("bob", "gateway", "run.read")
        notes.append(data["note"])
    assert notes == ["another person's run", "no such run"]
