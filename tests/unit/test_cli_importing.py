"""Which files an import takes, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from placet.cli.importing import files_below, title_of
from placet.cli.main import app


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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("import", "no-such-directory", "--kb", "kb"), "does not exist"),
        (("import", __file__, "--kb", "kb"), "is a file"),
        (("import", "."), "--kb"),
        (("import", ".", "--kb", "kb", "--url", "http://127.0.0.1:9"), "who are you"),
        (("reindex", "--url", "http://127.0.0.1:9"), "who are you"),
        (("reindex", "--state-dir", "no-such-directory"), "where is the gateway"),
    ],
    ids=["absent", "no-directory", "no-base", "import-by-nobody", "reindex-by-nobody", "reindex-of-nothing"],
)
def test_docs_command_that_cannot_begin_says_why(
    arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PLACET_URL", "PLACET_TOKEN", "PLACET_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    ended = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, ["docs", *arguments])
    assert ended.exit_code == 2
    assert said in ended.output
