"""How commands run: logs apart from results, refusals in one line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TypeVar

T = TypeVar("T")


def run(work: Coroutine[object, object, T]) -> T:
    """The result. A refusal by the API ends the command with exit code 1 and its message on standard error."""
    from placet.cli.output import fail
    from placet.client import ApiError

    try:
        return asyncio.run(work)
    except ApiError as error:
        fail(str(error))


def quiet_logs() -> None:
    """Send what libraries log to standard error, warnings and worse only: standard output is the command's result."""
    from placet.observability import logs

    logs.configure("placet", os.environ.get("PLACET_LOG_LEVEL", "WARNING"))
