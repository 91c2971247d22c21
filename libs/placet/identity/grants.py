"""Run grants: a short-lived signed statement by the gateway that a person asked for this run or HTTP call (I2).

A grant says who and for what, never what they may do: rights are read from the directory at every decision.
"""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from placet.contracts.errors import ErrorCode, PlacetError

_TYPE = "placet-grant+jws"
_MAX_BYTES = 4096
_REMEMBERED = 4096
# Tolerated difference between two machines' clocks, in seconds: each may be two minutes wrong, in either direction.
LEEWAY_S = 270


class Purpose(StrEnum):
    """`run`: held by the agent for one run. `request`: one HTTP call of a person, never given to the agent."""

    RUN = "run"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Grant:
    """A verified grant. `expires` is in epoch seconds."""

    tenant: str
    actor: str
    purpose: Purpose
    request_id: str
    expires: int
    run_id: str | None = None


class GrantMint:
    """Mints grants; only the gateway holds this key."""

    def __init__(self, key: OKPKey) -> None:
        self._key = key

    def mint(
        self,
        *,
        tenant: str,
        actor: str,
        purpose: Purpose,
        request_id: str,
        lifetime_s: int,
        run_id: str | None = None,
    ) -> str:
        claims: dict[str, Any] = {
            "tenant": tenant,
            "actor": actor,
            "purpose": purpose.value,
            "request_id": request_id,
            "exp": int(time.time()) + lifetime_s,
        }
        if run_id is not None:
            claims["run_id"] = run_id
        header = {"alg": "Ed25519", "typ": _TYPE, "kid": self._key.kid}
        return jws.serialize_compact(header, json.dumps(claims), self._key, algorithms=["Ed25519"])


class GrantVerifier:
    """Verifies grants against the gateway's public key.

    A signature once found good stays good, so the claims of the latest grants are remembered by the whole token;
    what changes with time and with the call (expiry, tenant, purpose, run) is checked on every use.
    """

    def __init__(self, key: OKPKey) -> None:
        self._key = key
        self._genuine: OrderedDict[str, Grant] = OrderedDict()

    def verify(self, token: str, tenant: str, *, purpose: Purpose | None = None, run_id: str | None = None) -> Grant:
        """The grant, if it is genuine, current and for this tenant (and purpose, and run, where given).

        Raises `PlacetError(unauthenticated)` otherwise, without saying which check failed.
        """
        grant = self._remembered(token)
        fits = (
            grant is not None
            and grant.tenant == tenant
            and grant.expires + LEEWAY_S > time.time()
            and (purpose is None or grant.purpose is purpose)
            and (run_id is None or grant.run_id == run_id)
        )
        if grant is None or not fits:
            raise PlacetError(ErrorCode.UNAUTHENTICATED, "The grant is not valid for this call.")
        return grant

    def _remembered(self, token: str) -> Grant | None:
        grant = self._genuine.get(token)
        if grant is None:
            grant = self._parse(token)
            if grant is not None:
                self._genuine[token] = grant
                if len(self._genuine) > _REMEMBERED:
                    self._genuine.popitem(last=False)
        return grant

    def _parse(self, token: str) -> Grant | None:
        if len(token) > _MAX_BYTES:
            return None
        try:
            signed = jws.deserialize_compact(token, self._key, algorithms=["Ed25519"])
            if signed.headers().get("typ") != _TYPE:
                return None
            claims = json.loads(signed.payload)
            return Grant(
                tenant=str(claims["tenant"]),
                actor=str(claims["actor"]),
                purpose=Purpose(claims["purpose"]),
                request_id=str(claims["request_id"]),
                expires=int(claims["exp"]),
                run_id=claims.get("run_id"),
            )
        except (JoseError, ValueError, KeyError, TypeError, OverflowError):
            return None
