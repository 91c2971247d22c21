"""What a model is told of a finished call: what really happened, so that it neither retries nor claims otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from placet.contracts.errors import NextHop
from services.agent.domain.calls import Call, CallStatus
from services.agent.domain.outcomes import next_hop

# Of these a model may learn the code and work with it. Of a denial it learns nothing (T4).
_TELLABLE = frozenset(
    {NextHop.SAME_NODE, NextHop.ASK_BACK, NextHop.DEGRADE, NextHop.FINISH, NextHop.PARK, NextHop.TELL_USER}
)


def told_of_call(call: Call, body: Mapping[str, Any] | None) -> dict[str, Any]:
    told: dict[str, Any] = {"status": call.status.value, "asked": call.args}
    if call.status is CallStatus.ERROR:
        return told | _error(call)
    if call.reads and call.status is CallStatus.OK:
        return told | {"answer": dict(body or {})}
    if call.ran is not None:
        told["ran_instead"] = call.ran
    if call.note:
        told["message"] = call.note
    return told | ({"answer": call.receipt} if call.receipt else {})


def _error(call: Call) -> dict[str, Any]:
    if next_hop(call) not in _TELLABLE:
        return {"code": "refused"}
    told: dict[str, Any] = {"code": call.code}
    if call.note:
        told["message"] = call.note
    if call.problems:
        told["problems"] = list(call.problems)
    return told
