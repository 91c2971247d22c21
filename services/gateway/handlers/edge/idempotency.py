"""`Idempotency-Key` on POSTs: the first call works, every later one gets its answer.

A gateway that dies in the middle leaves a marker without an answer, which nobody renews any more. A call that waits
for it takes it over and works again; the ids it makes come from the key, so that the services behind recognize the same
run or the same call.
"""

from __future__ import annotations

import asyncio
import time

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from placet.contracts.errors import PlacetError
from placet.observability import logs
from services.gateway.domain import idempotency as rules
from services.gateway.domain.idempotency import Answer, Entry, Verdict
from services.gateway.domain.pacing import pauses
from services.gateway.errors import bad_idempotency_key, idempotency_mismatch, still_in_progress
from services.gateway.handlers.caller import caller_of
from services.gateway.handlers.citations import require_standing
from services.gateway.handlers.exchange import exchange_of, guarded, ports_of
from services.gateway.handlers.problems import answer_problem
from services.gateway.ports import Idempotency

log = logs.get(__name__)

HEADER = "idempotency-key"


class _Claim:
    """The right to work under a key: a marker, written again while the work goes on (never, if it is short)."""

    def __init__(self, store: Idempotency, key: str, fingerprint: str, revision: int) -> None:
        self.key = key
        self.fingerprint = fingerprint
        self.revision = revision
        self._store = store
        self._renewing: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_later(rules.RENEWED_EVERY_S, self._renew)

    async def stop(self) -> None:
        """No more renewals; afterwards `revision` is the last one."""
        self._next.cancel()
        if self._renewing:
            await self._renewing

    def _renew(self) -> None:
        self._renewing = self._loop.create_task(self._renewed())

    async def _renewed(self) -> None:
        try:
            revision = await self._store.replace(self.key, Entry(self.fingerprint, time.time()), self.revision)
        except PlacetError as error:
            log.warning("an idempotency marker was not renewed", code=error.code.value)
            revision = self.revision
        if revision is not None:
            self.revision = revision
            self._next = self._loop.call_later(rules.RENEWED_EVERY_S, self._renew)


class IdempotencyStep:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        offered = Headers(scope=scope).get(HEADER) if guarded(scope) and scope["method"] == "POST" else None
        if offered is None:
            await self._app(scope, receive, send)
            return
        try:
            claimed = await self._claim(scope, offered)
            anew = isinstance(claimed, Answer) and rules.made_anew(scope["path"])
            if isinstance(claimed, Answer) and not anew:
                await require_standing(caller_of(scope))
        except PlacetError as error:
            await answer_problem(error, scope, receive, send)
            return
        if anew:
            await self._app(scope, receive, send)
        elif isinstance(claimed, Answer):
            await Response(claimed.body, claimed.status, claimed.headers)(scope, receive, send)
        else:
            await self._work(claimed, scope, receive, send)

    async def _claim(self, scope: Scope, offered: str) -> _Claim | Answer:
        if not rules.acceptable(offered):
            raise bad_idempotency_key()
        exchange, store = exchange_of(scope), ports_of(scope).idempotency
        who = exchange.principal
        if who is None:
            raise RuntimeError("idempotency keys are looked at after authentication only")
        fingerprint = rules.fingerprint(scope["query_string"], exchange.body)
        key = rules.storage_key(who.tenant, who.subject, scope["method"], scope["path"], offered)
        # The fingerprint too: a key used again for something else, once it has been forgotten, names something else.
        exchange.seed = (key, fingerprint)
        return await _claim(store, key, fingerprint)

    async def _work(self, claim: _Claim, scope: Scope, receive: Receive, send: Send) -> None:
        store = ports_of(scope).idempotency
        recorder = _Recorder()
        try:
            await self._app(scope, receive, recorder.send)
        except Exception:
            await claim.stop()
            await _forget(store, claim)
            raise
        finally:
            await claim.stop()
        # Kept before it is sent: whoever has the answer and asks again gets the same one.
        await _keep(store, claim, recorder.answer())
        for message in recorder.messages:
            await send(message)


async def _claim(store: Idempotency, key: str, fingerprint: str) -> _Claim | Answer:
    """Raises `PlacetError` (idempotency_mismatch, or conflict while another call is at work for too long)."""
    watched, since = 0, time.monotonic()
    for pause in pauses(rules.PATIENCE_S):
        started = Entry(fingerprint, time.time())
        revision = await store.create(key, started)
        if revision is not None:
            return _Claim(store, key, fingerprint, revision)
        found = await store.find(key)
        if found is None:
            continue
        entry, known = found
        if known != watched:
            watched, since = known, time.monotonic()
        match rules.judge(entry, fingerprint, time.monotonic() - since):
            case Verdict.MISMATCH:
                raise idempotency_mismatch()
            case Verdict.REPLAY if entry.answer is not None:
                return entry.answer
            case Verdict.TAKE_OVER:
                revision = await store.replace(key, started, known)
                if revision is not None:
                    return _Claim(store, key, fingerprint, revision)
            case _:
                await asyncio.sleep(pause)
    raise still_in_progress()


async def _keep(store: Idempotency, claim: _Claim, answer: Answer) -> None:
    """A store that is away does not take back what was done: the marker stays and is taken over later."""
    try:
        if answer.keepable:
            await store.replace(claim.key, Entry(claim.fingerprint, time.time(), answer), claim.revision)
        else:
            await store.drop(claim.key, claim.revision)
    except PlacetError as error:
        log.warning("an idempotent answer was not kept", code=error.code.value)


async def _forget(store: Idempotency, claim: _Claim) -> None:
    try:
        await store.drop(claim.key, claim.revision)
    except PlacetError as error:
        log.warning("an idempotency marker was not removed", code=error.code.value)


class _Recorder:
    """Holds an answer back until it is kept. Answers to POSTs are small documents, never streams."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    def answer(self) -> Answer:
        start = self.messages[0]
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        body = b"".join(message.get("body", b"") for message in self.messages[1:])
        return Answer(int(start["status"]), rules.kept_headers(headers), body)
