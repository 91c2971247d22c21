"""A serializer that lets only plain state into checkpoints: ids, hashes and JSON, no evidence, no objects (U4).

What a person may read can be taken from them at any time; what is in a checkpoint stays there. So evidence lives in
the memory of a drive, and this is the wall that notices when somebody forgets.
"""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Interrupt, Send

from services.agent.domain.wanted import BODY_KEYS
from services.agent.errors import UnsafeStateError

_MOST_DEPTH = 16


class GuardedSerializer(JsonPlusSerializer):
    """Reads only built-in safe types (strict msgpack) and writes only JSON, interrupts and sends of JSON.

    Raises `UnsafeStateError` for anything else. An exception is written as its type's name: its text may quote
    anything.
    """

    def __init__(self) -> None:
        super().__init__(allowed_msgpack_modules=None)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        if isinstance(obj, BaseException):
            return super().dumps_typed(type(obj).__name__)
        _require_plain(obj, 0)
        return super().dumps_typed(obj)


def _require_plain(value: Any, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise UnsafeStateError("state is nested too deep to be looked through")
    if value is None or isinstance(value, str | int | float | bool | bytes):
        return
    if isinstance(value, dict):
        if "chunk_id" in value and not BODY_KEYS.isdisjoint(value):
            raise UnsafeStateError("evidence must not be persisted: keep its id and read it again")
        for key, item in value.items():
            _require_plain(key, depth + 1)
            _require_plain(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _require_plain(item, depth + 1)
    elif isinstance(value, Interrupt):
        _require_plain(value.value, depth + 1)
        _require_plain(value.response_schema, depth + 1)
    elif isinstance(value, Send):
        _require_plain(value.arg, depth + 1)
    else:
        raise UnsafeStateError(f"state must be JSON, not {type(value).__name__}")
