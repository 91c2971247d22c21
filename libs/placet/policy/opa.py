"""`OpaPolicy`: the policies evaluated by an OPA server beside the service, over one pool of kept connections."""

from __future__ import annotations

import asyncio
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp
import orjson
from yarl import URL

from placet.contracts.policy import NO_REVISION
from placet.policy.engine import PolicyEngine
from placet.policy.port import ADMIN, ENTRY_POINTS, Answered, Evaluation, Failure, Reload, Unanswered

_HEADERS = {"Content-Type": "application/json"}


class OpaPolicy(PolicyEngine):
    """Asks with `provenance`, so the revision comes from the same transaction as the value.

    `timeout_s` bounds a whole decision, the second try included. Create it with `open`, inside the event loop.
    The input goes out and the answer is read as bytes: a client library for OPA would encode and decode both again.
    """

    engine = "opa"

    def __init__(self, session: aiohttp.ClientSession, url: URL, *, timeout_s: float) -> None:
        self._session = session
        self._data = url.with_query(provenance="true")
        self._urls = {entrypoint: self._url(entrypoint) for entrypoint in ENTRY_POINTS}
        self._timeout_s = timeout_s
        self._closed = False

    @classmethod
    async def open(cls, url: str, *, timeout_s: float = 2.0) -> Self:
        """`url` like `http://127.0.0.1:8181`. Connects at the first question, so OPA may come later.

        Raises `ValueError` for a URL that is not http(s) with a host.
        """
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"not an OPA URL: {url!r}")
        session = aiohttp.ClientSession(
            # `asyncio.timeout` below bounds the whole; the session's own timers would come on top.
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=_HEADERS,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )
        return cls(session, URL(url), timeout_s=timeout_s)

    async def _evaluate(self, entrypoint: str, encoded: bytes) -> Evaluation:
        if self._closed:
            return Unanswered(Failure.DOWN, "closed")
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._ask(entrypoint, encoded)
        except TimeoutError:
            return Unanswered(Failure.SLOW, f"more than {self._timeout_s} s")
        except aiohttp.ClientConnectionError as error:
            return Unanswered(Failure.DOWN, repr(error))
        except aiohttp.ClientResponseError as error:
            return Unanswered(Failure.FAILED, f"HTTP {error.status}: {error.message}")
        except (aiohttp.ClientError, ValueError) as error:
            return Unanswered(Failure.BAD_SHAPE, repr(error))
        return _read(entrypoint, answer)

    async def _ask(self, entrypoint: str, encoded: bytes) -> Any:
        url = self._urls.get(entrypoint) or self._url(entrypoint)
        body = b'{"input":' + encoded + b"}"
        try:
            return await self._post(url, body)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if isinstance(error, aiohttp.ClientConnectorError):
                raise
            # A kept connection that OPA closed meanwhile (a restart). Asking has no effect, so once more.
            return await self._post(url, body)

    def _url(self, entrypoint: str) -> URL:
        return self._data.with_path(f"/v1/data/{entrypoint.replace('.', '/')}", keep_query=True)

    async def _post(self, url: URL, body: bytes) -> Any:
        async with self._session.post(url, data=body, allow_redirects=False) as response:
            response.raise_for_status()
            return orjson.loads(await response.read())

    async def revision(self) -> str:
        return (await self._evaluate(ADMIN, b"{}")).revision

    async def refresh(self) -> Reload:
        """OPA watches its bundle by itself; this tells what it serves now."""
        evaluation = await self._evaluate(ADMIN, b"{}")
        if isinstance(evaluation, Answered):
            return Reload(changed=False, revision=evaluation.revision)
        return Reload(changed=False, revision=evaluation.revision, problem=evaluation.detail)

    async def ready(self) -> bool:
        """It answers, from a bundle that has a revision and holds the policies."""
        return isinstance(await self._evaluate(ADMIN, b"{}"), Answered)

    async def close(self) -> None:
        self._closed = True
        await self._session.close()


def _read(entrypoint: str, answer: Any) -> Evaluation:
    revision = _revision(answer)
    if revision is None:
        return Unanswered(Failure.BAD_SHAPE, "no bundle revision in the answer's provenance")
    if "result" not in answer:
        return Unanswered(Failure.UNDEFINED, f"data.{entrypoint}", revision)
    return Answered(answer["result"], revision)


def _revision(answer: Any) -> str | None:
    """The one bundle's revision. Several bundles, or none, leave open which policy answered."""
    try:
        revisions = [bundle["revision"] for bundle in answer["provenance"]["bundles"].values()]
    except (TypeError, KeyError, AttributeError):
        return None
    if len(revisions) == 1 and isinstance(revisions[0], str) and revisions[0] not in {"", NO_REVISION}:
        return revisions[0]
    return None
