"""The rows of the specification and the tests that prove them, by their `spec` markers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROWS = Path("tests/spec_rows.txt")


class Marked(Protocol):
    """What is asked of a collected pytest item."""

    @property
    def nodeid(self) -> str: ...

    def iter_markers(self, name: str) -> Iterable[object]: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One row: its id and, where it has one, its sentence."""

    id: str
    text: str


def load(root: Path) -> list[Row]:
    """Every row of `tests/spec_rows.txt`, in its order. Raises `ValueError` for an id given twice."""
    rows: dict[str, Row] = {}
    for line in (root / ROWS).read_text(encoding="utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        id_, _, text = line.partition(" ")
        if id_ in rows:
            raise ValueError(f"{ROWS} names {id_} twice")
        rows[id_] = Row(id_, text.strip())
    return list(rows.values())


def rows_of(item: Marked) -> set[str]:
    """The rows that one collected test names."""
    return {str(row) for marker in item.iter_markers("spec") for row in getattr(marker, "args", ())}


def by_row(items: Iterable[Marked]) -> dict[str, list[str]]:
    """Row id -> the tests that name it, parameters left away."""
    found: dict[str, dict[str, None]] = {}
    for item in items:
        for row in rows_of(item):
            found.setdefault(row, {})[item.nodeid.partition("[")[0]] = None
    return {row: list(tests) for row, tests in found.items()}


def unknown(rows: Sequence[Row], named: Iterable[str]) -> list[str]:
    """Ids that tests name and the specification does not have: typing errors."""
    return sorted(set(named) - {row.id for row in rows})


def render(rows: Sequence[Row], tests: Mapping[str, Sequence[str]]) -> str:
    """The report: each row with its tests, then the rows without any."""
    lines: list[str] = []
    for row in rows:
        proven = tests.get(row.id, ())
        lines.append(f"{row.id:4} {row.text or '-'} ({len(proven)})")
        lines += [f"       {test}" for test in sorted(proven)]
    missing = [row.id for row in rows if not tests.get(row.id)]
    lines.append("")
    lines.append(f"{len(rows) - len(missing)} of {len(rows)} rows have tests.")
    lines.append(f"Without: {', '.join(missing) or 'none'}")
    return "\n".join(lines) + "\n"
