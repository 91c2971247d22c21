"""Runs a command's coroutine and tells refusals in one line."""

from __future__ import annotations

import asyncio
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
