"""What the supervisor says: lines for people on standard error, and everything in its log file.

Standard output stays for the READY line alone.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog


class Journal:
    """Used from one thread."""

    def __init__(self, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._file = log.open("a", encoding="utf-8", buffering=1)
        # Libraries of ours log too (which engine, how many streams): into the file, never to standard output.
        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
            logger_factory=structlog.WriteLoggerFactory(file=self._file),
        )

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)
        self._file.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {text}\n")

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Tell how long the block took, once it is done."""
        started = time.monotonic()
        yield
        self.say(f"{what} … {time.monotonic() - started:.1f} s")
