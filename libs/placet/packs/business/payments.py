"""A payment provider over HTTP: refunds under an `Idempotency-Key`, found again by that key.

What the provider is expected to offer (JSON, amounts as decimal text):

    POST {url}/refunds                      Idempotency-Key: <key>   {order_id, amount, currency, reason}
    GET  {url}/refunds?idempotency_key=K    {"items": [refund]}      what the key led to, or nothing
    POST {url}/refunds/{id}/cancel          Idempotency-Key: <key>   the refund, cancelled

A refund is `{id, order_id, amount, currency, status}` with status `succeeded` or `cancelled`. The same key with the
same body is answered with the same refund, without paying twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from placet.contracts.errors import ErrorCode, PlacetError

_MAX_CONNECTIONS = 20
_DEFAULT_TIMEOUT_S = 6.0  # below the tools' own timeout: who waits for the answer is told what kind of silence it was
_LONGEST_WAIT_S = 30.0
_REFUSALS = frozenset({400, 402, 409, 422})


class Payment(BaseModel):
    """One refund as the provider tells it."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str = Field(min_length=1, max_length=200)
    order_id: str
    amount: Decimal
    currency: str
    status: Literal["succeeded", "cancelled"]


class _Found(BaseModel):
    items: tuple[Payment, ...]


class DeclinedError(PlacetError):
    """The provider has said no: nothing was paid, and asking again with the same key says the same."""


@dataclass(frozen=True, slots=True)
class Payments:
    """One pooled client. A `POST` without a usable answer raises `outcome_unknown`: it may have taken effect."""

    client: httpx.AsyncClient

    @classmethod
    def open(cls, settings: Mapping[str, str]) -> Payments | None:
        """From the pack's settings `payment_url`, `payment_timeout_s`, `payment_token_file`; None without a URL."""
        url = settings.get("payment_url", "").rstrip("/")
        if not url:
            return None
        headers = {"Accept": "application/json"}
        if token_file := settings.get("payment_token_file"):
            headers["Authorization"] = f"Bearer {Path(token_file).read_text(encoding='utf-8').strip()}"
        timeout_s = float(settings.get("payment_timeout_s", _DEFAULT_TIMEOUT_S))
        limits = httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=_MAX_CONNECTIONS)
        client = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout_s, limits=limits, trust_env=False)
        return cls(client)

    async def close(self) -> None:
        await self.client.aclose()

    async def refund(self, key: str, *, order_id: str, amount: str, currency: str, reason: str) -> Payment:
        """Pay back. Raises `DeclinedError`; `outcome_unknown`; a retryable `PlacetError` when nothing was sent."""
        body = {"order_id": order_id, "amount": amount, "currency": currency, "reason": reason}
        return await self._act("/refunds", key, body)

    async def cancel(self, key: str, payment_id: str) -> Payment:
        """Take a refund back. Raises as `refund`."""
        return await self._act(f"/refunds/{_segment(payment_id)}/cancel", key, {})

    async def find(self, key: str) -> Payment | None:
        """What the key led to. Raises a retryable `PlacetError` when the provider gives no answer."""
        try:
            response = await self.client.get("/refunds", params={"idempotency_key": key})
        except httpx.HTTPError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The payment provider does not answer.") from error
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise _too_many(response)
        try:
            response.raise_for_status()
            items = _Found.model_validate_json(response.content).items
        except (httpx.HTTPError, ValidationError) as error:
            raise PlacetError(
                ErrorCode.DEPENDENCY_UNAVAILABLE, "The payment provider gave no usable answer."
            ) from error
        return items[0] if items else None

    async def _act(self, path: str, key: str, body: dict[str, Any]) -> Payment:
        try:
            response = await self.client.post(path, json=body, headers={"Idempotency-Key": key})
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The payment provider cannot be reached.") from error
        except httpx.HTTPError as error:
            raise _unknown() from error
        if response.status_code == httpx.codes.TOO_MANY_REQUESTS:
            raise _too_many(response)
        if response.status_code in _REFUSALS:
            raise DeclinedError(ErrorCode.INVALID_ARGUMENTS, "The payment provider declined.", rule="provider_declined")
        if response.is_client_error:  # a wrong address or token: for the operator, and nothing was paid
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The payment provider refuses our requests.")
        try:
            response.raise_for_status()
            return Payment.model_validate_json(response.content)
        except (httpx.HTTPError, ValidationError) as error:
            raise _unknown() from error


def _segment(value: str) -> str:
    """An id of theirs inside a path of ours."""
    if not value.replace("-", "").replace("_", "").isalnum():
        raise PlacetError(ErrorCode.INTERNAL, "The payment provider gave an id that cannot be used.")
    return value


def _unknown() -> PlacetError:
    return PlacetError(ErrorCode.OUTCOME_UNKNOWN, "The payment provider did not say whether it paid.")


def _too_many(response: httpx.Response) -> PlacetError:
    """`retry_after_s` as asked for, within reason; seconds only: a date would depend on two clocks."""
    asked = response.headers.get("Retry-After", "")
    wait_s = min(float(asked), _LONGEST_WAIT_S) if asked.isdigit() else 1.0
    return PlacetError(ErrorCode.RATE_LIMITED, "The payment provider asks for patience.", retry_after_s=wait_s)
