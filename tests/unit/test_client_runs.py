"""Following a run: replay, broken connections, the end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable

import httpx
import pytest

from placet.client import ApiError, NotFoundError, PlacetClient, UnavailableError
from placet.client import runs as runs_module


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs_module, "RECONNECT_PAUSE_S", 0.001)


class Broken(httpx.AsyncByteStream):
    """A body that breaks off after its parts."""

    def __init__(self, parts: Iterable[bytes], *, broken: bool) -> None:
        self._parts = list(parts)
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            yield part
        if self._broken:
            raise httpx.ReadError("the connection broke")


def event(seq: int, kind: str) -> bytes:
    envelope = {"run_id": "r", "seq": seq, "type": kind, "time": "2026-11-30T12:00:00Z", "data": {"text": "x\u2028y"}}
    return f"id: {seq}\nevent: {kind}\ndata: {json.dumps(envelope, ensure_ascii=False)}\n\n".encode()


def stream(*events: bytes, broken: bool = False) -> httpx.Response:
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Broken(events, broken=broken))


class Server:
    """Answers event-stream requests one after the other, and remembers where each wanted to go on."""

    def __init__(self, *answers: httpx.Response) -> None:
        self._answers = list(answers)
        self.asked_after: list[str | None] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked_after.append(request.headers.get("last-event-id"))
        return self._answers.pop(0)


def client_of(server: Server) -> PlacetClient:
    return PlacetClient("http://gateway", "t", transport=httpx.MockTransport(server))


async def seqs(client: PlacetClient, after: int = 0, patience_s: float = 30) -> list[int]:
    return [found.seq async for found in client.runs.follow("r", after=after, patience_s=patience_s)]


@pytest.mark.spec("U5")
async def test_follow_after_broken_connection_goes_on_where_it_was() -> None:
    server = Server(
        stream(event(1, "run.started"), event(2, "run.routed"), broken=True),
        stream(broken=True),
        stream(event(3, "message.delta"), event(4, "run.completed")),
    )
    async with client_of(server) as client:
        assert await seqs(client) == [1, 2, 3, 4]
    assert server.asked_after == [None, "2", "2"]


async def test_follow_of_stream_that_ends_too_early_asks_again() -> None:
    server = Server(stream(event(1, "run.started")), stream(event(2, "run.completed")))
    async with client_of(server) as client:
        assert await seqs(client) == [1, 2]


async def test_follow_from_a_given_event_replays_only_what_came_after() -> None:
    server = Server(stream(event(5, "message.delta"), event(6, "run.completed")))
    async with client_of(server) as client:
        assert await seqs(client, after=4) == [5, 6]
    assert server.asked_after == ["4"]


async def test_follow_ignores_heartbeats_and_repeated_events() -> None:
    server = Server(
        stream(event(1, "run.started"), b": heartbeat\n\n", event(1, "run.started"), b": heartbeat\n\n"),
        stream(event(1, "run.started"), event(2, "run.completed")),
    )
    async with client_of(server) as client:
        assert await seqs(client) == [1, 2]


async def test_follow_keeps_line_separators_inside_texts_whole() -> None:
    async with client_of(Server(stream(event(1, "run.completed")))) as client:
        events = [found async for found in client.runs.follow("r")]
    assert events[0].data == {"text": "x\u2028y"}


async def test_follow_of_a_run_of_somebody_else_raises_not_found() -> None:
    refused = httpx.Response(404, json={"code": "not_found", "detail": "none"})
    async with client_of(Server(refused)) as client:
        with pytest.raises(NotFoundError):
            await seqs(client)


async def test_follow_without_connection_for_too_long_raises_unavailable() -> None:
    down = [httpx.Response(503, json={"code": "dependency_unavailable"}) for _ in range(50)]
    async with client_of(Server(*down)) as client:
        with pytest.raises(UnavailableError):
            await seqs(client, patience_s=0.01)


async def test_follow_of_something_that_is_no_event_stream_raises() -> None:
    page = httpx.Response(200, headers={"content-type": "text/html"}, content=b"<html>")
    async with client_of(Server(page)) as client:
        with pytest.raises(ApiError, match="not an event stream"):
            await seqs(client)


async def test_wait_returns_the_first_event_of_the_wanted_type() -> None:
    server = Server(stream(event(1, "run.started"), event(2, "run.waiting_for_human"), event(3, "run.completed")))
    async with client_of(server) as client:
        found = await client.runs.wait("r", "run.waiting_for_human")
    assert (found.seq, found.type) == (2, "run.waiting_for_human")


async def test_wait_for_an_event_that_never_comes_returns_the_end() -> None:
    async with client_of(Server(stream(event(1, "run.started"), event(2, "run.completed")))) as client:
        found = await client.runs.wait("r", "run.resumed")
    assert found.type == "run.completed"
