"""JWTs of people: verification against a JWKS (OIDC), and the local issuer of the demo.

A token says who (subject, tenant) and never what they may: any role claim in it is ignored (I1).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet, OKPKey

from placet.contracts.errors import ErrorCode, PlacetError

ALGORITHMS = ["Ed25519", "EdDSA", "ES256", "RS256", "PS256"]
_MAX_BYTES = 16_384
# Tolerated difference to the issuer's clock, in seconds (more than the ±2 minutes that must change nothing).
_LEEWAY_S = 150
_REFRESH_S = 300.0
_MIN_REFRESH_S = 10.0
# What the JWT library raises for a token that is not one; TypeError for headers of the wrong JSON type.
_BAD_TOKEN = (JoseError, ValueError, KeyError, TypeError)

# Raises `OSError` or `ValueError` when the keys cannot be had now.
FetchJwks = Callable[[], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a token is about."""

    tenant: str
    subject: str


def unauthenticated() -> PlacetError:
    return PlacetError(ErrorCode.UNAUTHENTICATED, "A valid bearer token is required.")


def jwks_from_file(path: Path) -> FetchJwks:
    """A key source that reads a JWKS file (the demo's issuer, or one mounted into the container)."""

    async def fetch() -> dict[str, Any]:
        document: dict[str, Any] = json.loads(await asyncio.to_thread(path.read_text, encoding="utf-8"))
        return document

    return fetch


class TokenVerifier:
    """Verifies bearer tokens. Keys are fetched again every five minutes, for an unknown key id after ten seconds.

    When the issuer cannot be reached, known keys keep working; with none, every token is refused.
    """

    def __init__(self, fetch: FetchJwks, issuer: str, audience: str, tenant_claim: str = "tenant") -> None:
        self._fetch = fetch
        self._tenant_claim = tenant_claim
        self._claims = jwt.JWTClaimsRegistry(
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
            sub={"essential": True},
        )
        self._keys: KeySet | None = None
        self._fetched_at = float("-inf")
        self._failed_at = float("-inf")
        self._lock = asyncio.Lock()

    async def verify(self, token: str) -> Principal:
        """Raises `PlacetError(unauthenticated)` for anything but a genuine, current token of this issuer."""
        if len(token) > _MAX_BYTES:
            raise unauthenticated()
        keys = await self._current(_REFRESH_S)
        try:
            decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
        except _BAD_TOKEN:
            keys = await self._current(_MIN_REFRESH_S)
            try:
                decoded = jwt.decode(token, keys, algorithms=ALGORITHMS)
            except _BAD_TOKEN as error:
                raise unauthenticated() from error
        return self._principal(decoded.claims)

    def _principal(self, claims: dict[str, Any]) -> Principal:
        try:
            self._claims.validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            raise unauthenticated() from error
        tenant, subject = claims.get(self._tenant_claim), claims.get("sub")
        if not (isinstance(tenant, str) and tenant and isinstance(subject, str) and subject):
            raise unauthenticated()
        return Principal(tenant=tenant, subject=subject)

    async def _current(self, max_age_s: float) -> KeySet:
        async with self._lock:
            now = time.monotonic()
            if self._keys is not None and (
                now - self._fetched_at <= max_age_s or now - self._failed_at <= _MIN_REFRESH_S
            ):
                return self._keys
            try:
                self._keys = KeySet.import_key_set(await self._fetch())  # type: ignore[arg-type]
                self._fetched_at = time.monotonic()
            except (OSError, ValueError, KeyError, TypeError, JoseError) as error:
                # Not asked again at once: every request would wait for an issuer that is down.
                self._failed_at = time.monotonic()
                if self._keys is None:
                    raise unauthenticated() from error
            return self._keys


class LocalIssuer:
    """Issues tokens for the demo and for tests. Production uses the company's own issuer."""

    def __init__(self, key: OKPKey, issuer: str, audience: str) -> None:
        self._key = key
        self._issuer = issuer
        self._audience = audience

    def issue(self, tenant: str, subject: str, lifetime_s: int = 86_400) -> str:
        now = int(time.time())
        claims = {
            "iss": self._issuer,
            "aud": self._audience,
            "sub": subject,
            "tenant": tenant,
            "iat": now,
            "exp": now + lifetime_s,
        }
        return jwt.encode({"alg": "Ed25519", "kid": self._key.kid}, claims, self._key, algorithms=["Ed25519"])
