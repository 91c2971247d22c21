"""A payment provider outside that springs traps, counts what it is asked, and may stay silent about a payment."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.chaos.points import Side, Traps
from tests.integration import payment_provider

PLACE = "provider"


class Provider(payment_provider.Provider):
    """`posts`: what it was asked to do, by (kind, key).

    `dark`: keys about which it says nothing once it was asked to pay, and whether it takes the money all the same.
    `wrong`: orders whose payments it tells at another amount than it was asked for.
    """

    def __init__(self, traps: Traps) -> None:
        super().__init__()
        self._traps = traps
        self.posts: Counter[tuple[str, str]] = Counter()
        self.dark: dict[str, bool] = {}
        self.wrong: set[str] = set()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, target: str, key: str, raw: bytes) -> None:
        """Raises `ConnectionAbortedError`: whoever asked has died over it, or is left without an answer."""
        what, key = _named(method, target, key)
        trap = self._traps.sprung(Side.BEFORE, PLACE, what, f"{key} {target} ".encode() + raw)
        if trap and trap.point.side is Side.BEFORE:
            self._traps.fire(trap)
            raise ConnectionAbortedError
        if method == "POST":
            self.posts[what, key] += 1
        silent = key in self.dark and self.posts["payment", key] > 0
        if trap or silent:
            if method == "POST" and self.dark.get(key, True):
                self._handle(method, target, key, raw)
            if trap:
                self._traps.fire(trap)
            raise ConnectionAbortedError
        await super()._answer(writer, method, target, key, raw)

    def _told(self, refund: dict[str, Any]) -> dict[str, Any]:
        told = super()._told(refund)
        return told | {"amount": f"{refund['amount']}1"} if refund["order_id"] in self.wrong else told


def _named(method: str, target: str, key: str) -> tuple[str, str]:
    """The kind of a request, and the key that it is about."""
    if method == "GET":
        return "lookup", parse_qs(urlsplit(target).query)["idempotency_key"][0]
    return ("cancellation" if target.endswith("/cancel") else "payment"), key
