"""Where a page ended. Not a secret and not a permission: every page asks anew what the actor may see."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import DateTime, literal
from sqlalchemy.sql.elements import BindParameter
from sqlalchemy.types import TypeEngine

from placet.contracts.errors import ErrorCode, PlacetError


def encode(entity: str, keys: Sequence[Any]) -> str:
    values = [key.isoformat() if isinstance(key, datetime) else str(key) for key in keys]
    return base64.urlsafe_b64encode(json.dumps([entity, *values]).encode()).decode().rstrip("=")


def decode(entity: str, cursor: str, types: Sequence[TypeEngine[Any]]) -> list[BindParameter[Any]]:
    """The keys of the last record. Raises `invalid_arguments` for anything that `encode` did not make for `entity`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        kind, *values = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        if kind != entity:
            raise ValueError(f"made for {kind}")
        return [literal(_key(value, of), of) for value, of in zip(values, types, strict=True)]
    except (ValueError, TypeError, RecursionError, binascii.Error) as error:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "The cursor does not belong to this list.") from error


def _key(value: Any, of: TypeEngine[Any]) -> str | datetime:
    if not isinstance(value, str) or "\x00" in value:
        raise ValueError("a key is a text")
    if not isinstance(of, DateTime):
        value.encode()  # half of a surrogate pair is not text
        return value
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError("a time has an offset")
    return moment
