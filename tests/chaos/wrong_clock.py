"""A process whose clock is wrong: everything in it that asks what time it is gets another answer."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any


class _WrongDatetime:
    """Stands where a module holds the class `datetime`: only `now` differs."""

    def __init__(self, off: timedelta) -> None:
        self._off = off

    def now(self, tz: tzinfo | None = None) -> datetime:
        return datetime.now(tz) + self._off

    def __getattr__(self, name: str) -> Any:
        return getattr(datetime, name)

    def __call__(self, *parts: Any, **more: Any) -> datetime:
        return datetime(*parts, **more)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, datetime)


def put_clock_off(seconds: float) -> None:
    """From now on this process is `seconds` ahead (or behind). Monotonic clocks are as they were."""
    right = time.time
    time.time = lambda: right() + seconds
    wrong = _WrongDatetime(timedelta(seconds=seconds))
    for name, module in list(sys.modules.items()):
        if name.startswith(("placet.", "services.")) and getattr(module, "datetime", None) is datetime:
            module.datetime = wrong  # type: ignore[attr-defined]
