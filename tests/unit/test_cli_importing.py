"""Which files an import takes, and what they are called."""

from __future__ import annotations

from pathlib import Path

from placet.cli.importing import files_below, title_of


def test_import_takes_readable_files_and_neither_hidden_ones_nor_links_out(tmp_path: Path) -> None:
    root, outside = tmp_path / "docs", tmp_path / "outside.md"
    for name in ("a.md", "b/c.PDF", "b/d.docx", ".git/e.md", "f.png", ".hidden.txt"):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text", encoding="utf-8")
    outside.write_text("text", encoding="utf-8")
    (root / "link.md").symlink_to(outside)
    found = sorted(str(file.relative_to(root)) for file in files_below(root))
    assert found == ["a.md", "b/c.PDF", "b/d.docx"]


def test_import_calls_a_document_by_its_path_without_the_ending(tmp_path: Path) -> None:
    assert title_of(tmp_path / "hr" / "leave.v2.md", tmp_path) == "hr/leave.v2"
