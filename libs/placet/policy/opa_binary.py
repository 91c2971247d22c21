"""Which `opa` there is: on the path, else under the state directory."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

PINNED = "1.22.4"
"""What `placet.policy.obtain` builds or downloads."""

OLDEST = (1, 4, 0)
"""The oldest server that reads these policies (Rego v1) and answers with provenance."""

_VERSION = re.compile(r"^Version: v?(\d+)\.(\d+)\.(\d+)", re.MULTILINE)


def bin_dir(state_dir: Path) -> Path:
    return state_dir / "bin"


def version_of(binary: Path) -> tuple[int, int, int] | None:
    """None when it does not run or does not say its version."""
    try:
        shown = subprocess.run([binary, "version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(shown)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def suits(binary: Path) -> bool:
    version = version_of(binary)
    return version is not None and version >= OLDEST


def find_opa(state_dir: Path) -> Path | None:
    """The first one that suits, absolute; an older one on the path is passed over."""
    on_path = shutil.which("opa")
    candidates = [Path(on_path)] if on_path else []
    candidates.append(bin_dir(state_dir) / "opa")
    return next((path.resolve() for path in candidates if path.is_file() and suits(path)), None)
