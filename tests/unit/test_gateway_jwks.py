"""The issuer's keys over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.identity import keys
from placet.identity.tokens import TokenVerifier
from placet.testkit.builders import AUDIENCE, ISSUER, Keys
from services.gateway.adapters.jwks import HttpJwks

URL = "https://issuer.test/jwks"


def source(answer: Callable[[httpx.Request], httpx.Response]) -> HttpJwks:
    return HttpJwks(URL, httpx.MockTransport(answer))


async def test_jwks_document_of_the_issuer_verifies_its_tokens() -> None:
    made = Keys()
    fetch = source(lambda _: httpx.Response(200, json=keys.key_set(made.issuer).as_dict()))
    verifier = TokenVerifier(fetch, ISSUER, AUDIENCE)
    principal = await verifier.verify(made.local_issuer().issue("acme", "alice"))
    assert (principal.tenant, principal.subject) == ("acme", "alice")
    await fetch.close()


@pytest.mark.parametrize("status", [301, 404, 500])
async def test_jwks_answer_other_than_200_is_an_os_error(status: int) -> None:
    fetch = source(lambda _: httpx.Response(status, headers={"location": "https://evil.test/"}))
    with pytest.raises(OSError, match="cannot fetch"):
        await fetch()


@pytest.mark.parametrize("body", [b"[]", b"nonsense", b'"x"', b"{" + b" " * 1_000_001 + b"}"])
async def test_jwks_answer_that_is_no_small_json_object_is_a_value_error(body: bytes) -> None:
    fetch = source(lambda _: httpx.Response(200, content=body))
    with pytest.raises(ValueError):  # noqa: PT011 - three different texts, one kind
        await fetch()


async def test_jwks_issuer_out_of_reach_refuses_tokens_instead_of_failing() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectTimeout("no route", request=request)

    verifier = TokenVerifier(source(broken), ISSUER, AUDIENCE)
    with pytest.raises(PlacetError) as caught:
        await verifier.verify(Keys().local_issuer().issue("acme", "alice"))
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
