"""One HTTP exchange: what is sent, what is sent again, and how refusals arrive."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from placet.client import (
    ApiError,
    ConflictError,
    InvalidError,
    LimitReachedError,
    NotAllowedError,
    NotFoundError,
    PlacetClient,
    UnauthenticatedError,
    UnavailableError,
)
from placet.client import transport as transport_module

Handler = Callable[[httpx.Request], httpx.Response]
SOMEBODY = {"id": "bob", "tenant": "acme", "active": True, "roles": [], "teams": [], "clearance": 0}


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "FIRST_PAUSE_S", 0.001)


def client_of(handler: Handler) -> PlacetClient:
    return PlacetClient("http://gateway", "the-token", transport=httpx.MockTransport(handler))


def problem(status: int, code: str) -> httpx.Response:
    body = {
        "type": "about:blank",
        "title": "Refused",
        "status": status,
        "detail": "because",
        "code": code,
        "errors": [],
    }
    return httpx.Response(status, json=body, headers={"content-type": "application/problem+json"})


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "unauthenticated", UnauthenticatedError),
        (403, "permission_denied", NotAllowedError),
        (404, "not_found", NotFoundError),
        (409, "already_decided", ConflictError),
        (413, "payload_too_large", InvalidError),
        (422, "challenge_failed", InvalidError),
        (429, "limit_reached", LimitReachedError),
        (503, "policy_unavailable", UnavailableError),
        (500, "internal", UnavailableError),
    ],
)
async def test_refusal_by_status_raises_its_type_with_code_and_details(
    status: int, code: str, kind: type[ApiError]
) -> None:
    async with client_of(lambda _: problem(status, code)) as client:
        with pytest.raises(kind) as caught:
            await client.runs.get("run-1")
    error = caught.value
    assert (error.status, error.code, error.message) == (status, code, "because")
    assert error.details["errors"] == []


async def test_refusal_without_problem_document_quotes_the_body() -> None:
    async with client_of(lambda _: httpx.Response(404, text="<html>" + "x" * 5000)) as client:
        with pytest.raises(NotFoundError) as caught:
            await client.runs.get("run-1")
    assert caught.value.code == "internal"
    assert caught.value.message.startswith("<html>xxx")
    assert len(caught.value.message) == 200


async def test_every_call_carries_the_token_and_the_bound_request_id() -> None:
    seen: list[httpx.Headers] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers)
        return httpx.Response(200, json=SOMEBODY)

    async with client_of(answer) as client:
        await client.directory.get("bob")
        await client.with_request_id("req-7").directory.get("bob")
        await client.directory.get("bob")
    assert [headers["authorization"] for headers in seen] == ["Bearer the-token"] * 3
    assert [headers.get("x-request-id") for headers in seen] == [None, "req-7", None]


async def test_post_repeated_after_lost_answer_carries_the_same_idempotency_key() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["idempotency-key"])
        if len(keys) < 3:
            raise httpx.RemoteProtocolError("the server went away")
        return httpx.Response(202, json={"run_id": "run-1"})

    async with client_of(answer) as client:
        assert await client.runs.start("a question") == "run-1"
        assert await client.runs.start("a question") == "run-1"
    assert keys[0] == keys[1] == keys[2]
    assert keys[3] != keys[0]


@pytest.mark.parametrize("status", [502, 503])
async def test_call_to_server_that_is_not_ready_is_tried_again(status: int) -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        return problem(status, "dependency_unavailable") if calls == 1 else httpx.Response(200, json=SOMEBODY)

    async with client_of(answer) as client:
        assert (await client.directory.get("bob")).id == "bob"
    assert calls == 2


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422, 429, 500])
async def test_refusal_that_another_attempt_would_not_mend_is_not_repeated(status: int) -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        return problem(status, "internal")

    async with client_of(answer) as client:
        with pytest.raises(ApiError):
            await client.runs.get("run-1")
    assert calls == 1


async def test_server_that_never_answers_raises_unavailable_after_bounded_attempts() -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        raise httpx.ConnectError("refused")

    async with client_of(answer) as client:
        with pytest.raises(UnavailableError) as caught:
            await client.runs.get("run-1")
    assert calls == transport_module.ATTEMPTS
    assert (caught.value.status, caught.value.code) == (0, "dependency_unavailable")


async def test_slow_answer_is_not_asked_for_again() -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        raise httpx.ReadTimeout("slow")

    async with client_of(answer) as client:
        with pytest.raises(UnavailableError):
            await client.runs.chat("a question")
    assert calls == 1


async def test_readiness_of_unready_gateway_names_what_it_waits_for() -> None:
    body = {"ready": False, "checks": {"bus": False, "other": True}}
    async with client_of(lambda _: httpx.Response(503, json=body)) as client:
        assert await client.readiness() == {"bus": False, "other": True}


async def test_readiness_of_absent_gateway_is_empty() -> None:
    def answer(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with client_of(answer) as client:
        assert await client.readiness() == {}
