"""Who gets in: a genuine, current token of the right issuer and audience, and nobody else."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from gateway_rig import House, open_house
from joserfc import jwt
from joserfc.jwk import OctKey

from placet.identity import keys
from placet.identity.tokens import LocalIssuer
from placet.testkit.builders import AUDIENCE, ISSUER


@pytest.fixture(scope="module")
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


def claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant": "acme", "iat": now, "exp": now + 600} | changes


def part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def signed(house: House, **changes: Any) -> str:
    key = house.keys.issuer
    return jwt.encode({"alg": "Ed25519", "kid": key.kid}, claims(**changes), key, algorithms=["Ed25519"])


def bad_tokens(house: House) -> dict[str, str]:
    public = json.dumps(house.keys.issuer.as_dict(private=False)).encode()
    hmac = jwt.encode({"alg": "HS256"}, claims(), OctKey.import_key(public), algorithms=["HS256"])
    head, body, signature = house.token().split(".")
    altered = part(claims(sub="carol"))
    return {
        "garbage": "a.b.c",
        "expired": house.token(lifetime_s=-3600),
        "forged by another key": LocalIssuer(keys.generate(), ISSUER, AUDIENCE).issue("acme", "alice"),
        "altered after signing": f"{head}.{altered}.{signature}",
        "signature cut off": f"{head}.{body}.",
        "alg none": f"{part({'alg': 'none'})}.{part(claims())}.",
        "hmac with the public key": hmac,
        "wrong audience": signed(house, aud="somebody-else"),
        "wrong issuer": signed(house, iss="https://evil.test"),
        "not valid yet": signed(house, nbf=int(time.time()) + 3600),
        "without expiry": signed(house, exp=None),
        "without tenant": signed(house, tenant=None),
        "tenant that widens a subject": signed(house, tenant="acme.*"),
        "wildcard tenant": signed(house, tenant="*"),
        "subject of many characters": signed(house, sub="a" * 201),
        "subject with a line break": signed(house, sub="alice\nroot"),
        "too long": "x" * 20_000,
    }


async def ask(house: House, authorization: str | None, path: str = "/api/documents") -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    async with httpx.AsyncClient(base_url=house.gateway.url) as client:
        return await client.get(path, headers=headers)


@pytest.mark.spec("I1")
async def test_authentication_valid_token_reaches_the_service_as_that_person(house: House) -> None:
    answer = await ask(house, f"Bearer {house.token('carol')}")
    assert answer.status_code == 200
    assert house.executor.last("list-documents").grant.actor == "carol"


@pytest.mark.spec("I1")
async def test_authentication_bad_token_of_any_kind_is_401_and_asks_nobody(house: House) -> None:
    before = len(house.executor.asked)
    bodies = set()
    for name, token in bad_tokens(house).items():
        answer = await ask(house, f"Bearer {token}")
        assert (name, answer.status_code) == (name, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.json()["code"] == "unauthenticated"
        bodies.add(answer.content)
    assert len(bodies) == 1
    assert len(house.executor.asked) == before


@pytest.mark.parametrize("authorization", [None, "", "Bearer", "Basic YWxpY2U6eA==", "Token abc"])
async def test_authentication_without_bearer_token_is_401(house: House, authorization: str | None) -> None:
    assert (await ask(house, authorization)).status_code == 401


async def test_authentication_two_authorization_headers_are_401(house: House) -> None:
    headers = [("Authorization", f"Bearer {house.token()}"), ("Authorization", f"Bearer {house.token('carol')}")]
    async with httpx.AsyncClient(base_url=house.gateway.url) as client:
        assert (await client.get("/api/documents", headers=headers)).status_code == 401


@pytest.mark.parametrize("path", ["/api/documents", "/api/no-such-thing", "/api/", "/api/runs/run-1/events"])
async def test_authentication_comes_before_routing(house: House, path: str) -> None:
    assert (await ask(house, None, path)).status_code == 401


async def test_authentication_large_body_without_token_is_401_not_read(house: House) -> None:
    async with httpx.AsyncClient(base_url=house.gateway.url) as client:
        answer = await client.post("/api/chat", content=b"x" * 1_000_000)
    assert answer.status_code == 401


@pytest.mark.spec("I1", "I2")
async def test_authentication_role_claims_of_a_token_go_nowhere(house: House) -> None:
    token = signed(house, roles=["directory_admin"], clearance=10)
    answer = await ask(house, f"Bearer {token}", "/api/directory/users/alice")
    assert answer.status_code == 404
    grant = house.executor.last("get-person").grant
    assert (grant.actor, grant.tenant) == ("alice", "acme")


@pytest.mark.spec("I4")
async def test_authentication_tenant_of_the_token_is_the_only_tenant_asked(house: House) -> None:
    await ask(house, f"Bearer {house.token('alice', 'globex')}")
    assert house.executor.last("list-documents").grant.tenant == "globex"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"])
async def test_authentication_service_pages_need_no_token(house: House, path: str) -> None:
    assert (await ask(house, None, path)).status_code == 200
