"""`python -m placet.testkit.spec_report`: collects the tests below `tests/`, runs none, and prints row -> tests."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path

import pytest

from placet.testkit.spec_rows import by_row, load, render

_LAST_LINES = 40


class _Collector:
    def __init__(self) -> None:
        self.items: list[pytest.Item] = []

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.items = list(items)


def main(root: Path) -> int:
    """Exit code 1 when the tests cannot be collected; rows without tests are listed and are no error."""
    collector, shown = _Collector(), io.StringIO()
    with contextlib.redirect_stdout(shown):
        code = pytest.main(["--collect-only", "-q", "-p", "no:warnings", str(root / "tests")], plugins=[collector])
    if code != pytest.ExitCode.OK:
        print("\n".join(shown.getvalue().splitlines()[-_LAST_LINES:]), file=sys.stderr)
        return 1
    print(render(load(root), by_row(collector.items)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
