"""What the guide tells people to type is what the command line takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from placet.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", README, re.M | re.S)
TYPED = [line for block in BLOCKS for line in block.splitlines() if line.startswith("placet ")]
NAMED = sorted(set(re.findall(r"`placet ([a-z]+(?: [a-z]+)?)", README)))


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command that these words name, and what is left for it."""
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        if not words or words[0] not in found.commands:
            raise AssertionError(f"no such command: {words[:1]}")
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize("line", TYPED)
def test_command_line_in_the_guide_is_taken_as_it_is_written(line: str) -> None:
    command, words = command_of(shlex.split(line, comments=True)[1:])
    with command.make_context(command.name, words):
        pass


@pytest.mark.parametrize("name", NAMED)
def test_command_named_in_the_guide_exists(name: str) -> None:
    command_of(name.split())


def test_guide_is_read_at_all() -> None:
    assert len(TYPED) >= 4
    assert "proposals decide" in {" ".join(line.split()[1:3]) for line in TYPED}
