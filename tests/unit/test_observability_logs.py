"""Logs: one JSON object per line, with the request's ids, on standard error; seen from a process of its own."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from typing import Any

PROGRAM = """
from placet.observability import logs
from placet.observability.context import RequestContext, bound
early = logs.get("early")
logs.configure("approval", {level!r})
log = logs.get("rooms")
with bound(RequestContext("req-1", "acme", "alice")):
    log.info("decided", proposal_id="p-1", text="line one\\nline two")
    log.debug("detail")
log.warning("outside")
early.warning("made before configure")
try:
    raise ValueError("broken")
except ValueError:
    log.exception("failed")
import logging
logging.getLogger("library").info("chatter")
logging.getLogger("library").error("library trouble")
"""


@functools.cache
def _lines(level: str = "INFO") -> tuple[list[dict[str, Any]], str]:
    program = PROGRAM.format(level=level)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")], done.stderr


def test_log_line_carries_service_level_time_and_request() -> None:
    entries, _ = _lines()
    decided = entries[0]
    assert decided["event"] == "decided"
    assert (decided["service"], decided["module"], decided["level"]) == ("approval", "rooms", "info")
    assert (decided["request_id"], decided["tenant"], decided["actor"]) == ("req-1", "acme", "alice")
    assert decided["timestamp"].endswith("Z")
    assert decided["text"] == "line one\nline two"


def test_log_line_outside_a_request_carries_no_request() -> None:
    entries, _ = _lines()
    outside = next(entry for entry in entries if entry["event"] == "outside")
    assert "request_id" not in outside


def test_log_level_hides_what_is_below() -> None:
    shown = [entry["event"] for entry in _lines("WARNING")[0]]
    assert "decided" not in shown
    assert "outside" in shown
    assert "detail" in [entry["event"] for entry in _lines("DEBUG")[0]]
    assert "detail" not in [entry["event"] for entry in _lines("no-such-level")[0]]


def test_exception_is_one_line_with_its_trace() -> None:
    failed = next(entry for entry in _lines()[0] if entry["event"] == "failed")
    assert "ValueError: broken" in failed["exception"]


def test_logger_made_before_configure_logs_the_same_way() -> None:
    early = next(entry for entry in _lines()[0] if entry["event"] == "made before configure")
    assert early["module"] == "early"


def test_libraries_are_heard_only_when_they_warn() -> None:
    _, text = _lines()
    assert "library trouble" in text
    assert "chatter" not in text
