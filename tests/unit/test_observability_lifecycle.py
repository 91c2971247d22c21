"""A service process that fails must end, whatever its libraries have left behind."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio
from placet.observability.lifecycle import run

async def stubborn():
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            continue

async def main():
    left_behind = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    {end}

run(main())
"""


def ended(end: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM.format(end=end)]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_service_that_fails_with_a_task_that_cannot_be_cancelled_ends_and_says_why() -> None:
    result = ended("raise ConnectionError('no database')")
    assert result.returncode == 1
    assert "no database" in result.stdout + result.stderr


def test_service_that_stops_with_a_task_that_cannot_be_cancelled_ends_well() -> None:
    assert ended("return").returncode == 0
