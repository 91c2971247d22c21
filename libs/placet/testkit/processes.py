"""Looking at real processes from a test."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether the process runs (Linux). A zombie that nobody has waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
