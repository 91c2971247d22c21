"""The issuer's public keys over HTTPS."""

from __future__ import annotations

from typing import Any

import httpx

_TIMEOUT_S = 5.0
_MAX_BYTES = 1_000_000


class HttpJwks:
    """Fetches a JWKS document. A callable, as `TokenVerifier` wants it."""

    def __init__(self, url: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._url = url
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False, transport=transport)

    async def __call__(self) -> dict[str, Any]:
        """Raises `OSError` when the issuer does not answer with 200, `ValueError` when the answer is no JSON object."""
        try:
            response = await self._client.get(self._url)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise ConnectionError(f"cannot fetch the issuer's keys: {error!r}") from error
        if len(response.content) > _MAX_BYTES:
            raise ValueError("the issuer's key document is too large")
        document = response.json()
        if not isinstance(document, dict):
            raise ValueError("the issuer's key document is not a JSON object")
        return document

    async def close(self) -> None:
        await self._client.aclose()
