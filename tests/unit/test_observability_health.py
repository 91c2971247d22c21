"""Health: ready only while every check says so in time; a broken check is never "ready"."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import httpx
import pytest
from starlette.applications import Starlette

from placet.observability import metrics
from placet.observability.health import HealthServer, routes, run_checks
from placet.testkit.ports import free_port


async def _yes() -> bool:
    return True


async def _no() -> bool:
    return False


async def _broken() -> bool:
    raise ConnectionError("away")


async def _hangs() -> bool:
    await asyncio.sleep(60)
    return True


@pytest.mark.parametrize(
    ("check", "expected"), [(_yes, True), (_no, False), (_broken, False)], ids=["yes", "no", "broken"]
)
async def test_check_result_is_reported_under_its_name(check: Callable[[], Awaitable[bool]], expected: bool) -> None:
    assert await run_checks({"bus": check, "other": _yes}) == {"bus": expected, "other": True}


async def test_check_that_hangs_counts_as_false_in_time() -> None:
    started = time.monotonic()
    assert await run_checks({"slow": _hangs, "also": _hangs, "good": _yes}) == {
        "slow": False,
        "also": False,
        "good": True,
    }
    assert time.monotonic() - started < 3


def _client(**checks: Callable[[], Awaitable[bool]]) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(Starlette(routes=routes(checks)))
    return httpx.AsyncClient(transport=transport, base_url="http://service")


async def test_readiness_with_every_check_good_is_200() -> None:
    async with _client(bus=_yes, policy=_yes) as client:
        answer = await client.get("/readyz")
    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "checks": {"bus": True, "policy": True}}


@pytest.mark.parametrize("bad", [_no, _broken])
async def test_readiness_with_one_bad_check_is_503_and_liveness_stays_200(
    bad: Callable[[], Awaitable[bool]],
) -> None:
    async with _client(bus=bad, policy=_yes) as client:
        ready = await client.get("/readyz")
        alive = await client.get("/healthz")
    assert ready.status_code == 503
    assert ready.json() == {"ready": False, "checks": {"bus": False, "policy": True}}
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})


async def test_metrics_are_served_in_the_prometheus_format() -> None:
    metrics.SECURITY_EVENTS.labels("test_kind").inc()
    async with _client() as client:
        answer = await client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'placet_security_events_total{kind="test_kind"} 1.0' in answer.text


async def test_server_answers_on_its_port_until_it_is_stopped() -> None:
    port = free_port()
    server = HealthServer(port, {"bus": _yes}, host="127.0.0.1")
    await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for _ in range(100):
                try:
                    answer = await client.get("/readyz")
                    break
                except httpx.ConnectError:
                    await asyncio.sleep(0.02)
            else:
                pytest.fail("the health server never answered")
        assert answer.status_code == 200
    finally:
        await server.stop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/readyz")


async def test_server_on_port_zero_starts_and_stops_without_listening() -> None:
    server = HealthServer(0, {"bus": _no})
    await server.start()
    await server.stop()
