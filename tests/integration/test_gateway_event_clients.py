"""Ordinary SSE clients on a gateway that is stopped and killed under them: httpx-sse, a browser's EventSource, ours."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import pytest
from gateway_process import GatewayProcess, process
from gateway_rig import House, open_house
from gateway_streams import begin, delta
from httpx_sse import aconnect_sse

from placet.client import PlacetClient
from placet.contracts.runs import SSE_TYPES
from placet.testkit.event_source import connected, install, node_or_reason
from placet.testkit.requirements import MissingError
from placet.testkit.waiting import until

ENDED = "run.completed"


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@pytest.fixture(scope="module")
def node() -> str:
    try:
        found, reason = node_or_reason()
    except MissingError as error:
        pytest.fail(str(error))
    if found is None:
        pytest.skip(reason)
    return found


async def by_httpx_sse(house: House, url: str, run_id: str, seen: list[int]) -> None:
    """As the package's own documentation does it: come back with the last id, whatever went wrong."""
    client, last, ended = house.as_(url=url), "", False
    while not ended:
        headers = {"Last-Event-ID": last} if last else {}
        try:
            async with aconnect_sse(client, "GET", f"/api/runs/{run_id}/events", headers=headers) as source:
                async for event in source.aiter_sse():
                    seen.append(int(event.id))
                    last, ended = event.id, event.event == ENDED
        except httpx.HTTPError:
            await asyncio.sleep(0.1)


async def by_our_client(house: House, url: str, run_id: str, seen: list[int]) -> None:
    async with PlacetClient(url, house.token()) as client:
        async for event in client.runs.follow(run_id, patience_s=120):
            seen += [event.seq]


async def restart(gateway: GatewayProcess, number: signal.Signals) -> None:
    code = await gateway.end(number)
    assert code == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    await gateway.start()
    await gateway.until_up()


async def talk(house: House, run_id: str, enough: asyncio.Event) -> None:
    """Pieces of an answer, while gateways come and go."""
    while not enough.is_set():
        await delta(house, run_id)
        await asyncio.sleep(0.02)


@pytest.mark.spec("U5", "T13")
async def test_clients_of_a_gateway_stopped_and_then_killed_see_every_event_once(house: House) -> None:
    run_id = await begin(house)
    raw: list[int] = []
    ours: list[int] = []
    async with asyncio.timeout(150), process(house) as gateway:
        await gateway.until_up()
        following = [
            asyncio.create_task(by_httpx_sse(house, gateway.url, run_id, raw)),
            asyncio.create_task(by_our_client(house, gateway.url, run_id, ours)),
        ]
        last = await _through_two_restarts(house, gateway, run_id, [lambda: len(raw), lambda: len(ours)])
        await asyncio.gather(*following)
    assert raw == ours == list(range(1, last + 1))


@pytest.mark.spec("U5", "T13")
async def test_browsers_event_source_reconnects_by_itself_without_a_gap_or_a_repeat(
    house: House, node: str, root: Path
) -> None:
    folder = await install(root / ".placet" / "npm")
    run_id = await begin(house)
    async with asyncio.timeout(150), process(house) as gateway:
        await gateway.until_up()
        url = f"{gateway.url}/api/runs/{run_id}/events"
        async with connected(node, folder, url, house.token(), list(SSE_TYPES.values())) as client:
            last = await _through_two_restarts(house, gateway, run_id, [lambda: len(client.seen)])
            assert await client.ended() == 0, client.errors
    assert [id_ for id_, _ in client.seen] == list(range(1, last + 1))
    assert client.seen[-1][1] == ENDED
    assert client.connections == 3


async def _through_two_restarts(
    house: House, gateway: GatewayProcess, run_id: str, counts: list[Callable[[], int]]
) -> int:
    """An orderly stop, then a kill, with events before, during and after; returns the last event's id."""
    enough = asyncio.Event()
    talking = asyncio.create_task(talk(house, run_id, enough))
    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            await _more_events(counts)
            await restart(gateway, number)
        await _more_events(counts)
    finally:
        enough.set()
        await talking
    await house.agent.complete(run_id, "650", [])
    return int(house.agent.runs[run_id].seq)


async def _more_events(counts: list[Callable[[], int]]) -> None:
    before = [count() for count in counts]

    def grown() -> bool:
        return all(count() > known + 3 for count, known in zip(counts, before, strict=True))

    await until(grown, timeout_s=60, what="more events at every client")
