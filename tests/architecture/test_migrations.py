"""Migrations are one chain: two that follow the same one leave every new database unmigrated."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

VERSIONS = Path(__file__).resolve().parents[2] / "libs" / "placet" / "storage" / "migrations" / "versions"


def _revisions() -> list[tuple[str, str | None]]:
    """(revision, the one before it) of every migration, as their files say."""
    found = []
    for path in sorted(VERSIONS.glob("v*.py")):
        values: dict[str, str | None] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for target in targets:
                value = getattr(node, "value", None)
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                    values[target.id] = value.value
        found.append((str(values["revision"]), values["down_revision"]))
    return found


def test_migrations_each_follow_another_one() -> None:
    revisions = _revisions()
    own = Counter(revision for revision, _ in revisions)
    before = Counter(previous for _, previous in revisions)
    assert [name for counts in (own, before) for name, times in counts.items() if times > 1] == []
    assert before[None] == 1
    assert set(before) - {None} == set(own) - {revisions[-1][0]}
