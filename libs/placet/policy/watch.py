"""Takes up changed policy files, and tells when the revision in force is another one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from placet.contracts.errors import PlacetError
from placet.contracts.policy import NO_REVISION
from placet.observability import logs
from placet.policy.port import PolicyDecisionPoint

log = logs.get(__name__)

OnChange = Callable[[str], Awaitable[None]]


async def _nothing(_: str) -> None:
    return None


class PolicyWatch:
    """Looks every `every_s` seconds. `on_change` is called with the first revision seen and with every later one.

    An `on_change` that fails is called again at the next look: it has not been told yet.
    """

    def __init__(self, policy: PolicyDecisionPoint, on_change: OnChange = _nothing, *, every_s: float = 0.25) -> None:
        self._policy = policy
        self._on_change = on_change
        self._every_s = every_s
        self._seen = NO_REVISION
        self._loop: asyncio.Task[None] | None = None

    @property
    def revision(self) -> str:
        """The revision that `on_change` has been told last, and has taken."""
        return self._seen

    async def start(self) -> None:
        self._loop = asyncio.create_task(self._look_for_ever())

    async def stop(self) -> None:
        if self._loop:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)

    async def _look_for_ever(self) -> None:
        while True:
            try:
                await self._look()
            except PlacetError as error:
                log.warning("policy change not taken up yet", code=error.code.value)
            except Exception:
                # Nobody awaits this loop: an unexpected fault must not end it for good.
                log.exception("policy watch failed")
            await asyncio.sleep(self._every_s)

    async def _look(self) -> None:
        revision = (await self._policy.refresh()).revision
        if revision in (self._seen, NO_REVISION):
            return
        await self._on_change(revision)
        if self._seen != NO_REVISION:
            log.info("policy changed", revision=revision, before=self._seen)
        self._seen = revision
