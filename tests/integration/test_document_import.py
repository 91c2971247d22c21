"""`placet docs import` and `placet docs reindex`: through the HTTP door, again and again."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from placet.cli.importing import Import, Outcome
from placet.client import NotFoundError, PlacetClient
from tests.integration.document_house import DocumentHouse

pytestmark = pytest.mark.spec("K1")


async def _import(house: DocumentHouse, directory: Path, who: str = "carol", **more: bool) -> dict[str, Outcome]:
    client = PlacetClient(house.gateway.url, house.token(who))
    run = Import(client, directory, "kb-policies", **more)
    failed = await run.run()
    assert failed == sum(one.outcome == "failed" for one in run.outcomes)
    return {one.file: one for one in run.outcomes}


async def test_import_again_skips_what_is_there_and_adds_versions_of_what_changed(
    document_house: DocumentHouse, tmp_path: Path
) -> None:
    (tmp_path / "sea").mkdir()
    (tmp_path / "sea" / "tide.md").write_text("# Tide\n\nThe tide table hangs at the pier.\n", encoding="utf-8")
    (tmp_path / "wind.txt").write_text("风力表在码头。\n", encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 no")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG")
    first = await _import(document_house, tmp_path)
    assert {name: (one.outcome, one.reason) for name, one in first.items()} == {
        "broken.pdf": ("failed", "corrupt"),
        "sea/tide.md": ("imported", None),
        "wind.txt": ("imported", None),
    }
    (tmp_path / "wind.txt").write_text("风力表在灯塔。\n", encoding="utf-8")
    again = await _import(document_house, tmp_path, publish=True)
    assert {name: (one.outcome, one.version) for name, one in again.items()} == {
        "broken.pdf": ("failed", 1),
        "sea/tide.md": ("published", 1),
        "wind.txt": ("published", 2),
    }
    assert {one.document_id for one in again.values()} == {one.document_id for one in first.values()}
    assert first["sea/tide.md"].document_id in await document_house.found("alice", "tide table pier")
    third = await _import(document_house, tmp_path, publish=True)
    assert {one.outcome for name, one in third.items() if name != "broken.pdf"} == {"skipped"}


async def test_import_into_a_base_one_may_not_see_fails_file_by_file(
    document_house: DocumentHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    client = PlacetClient(document_house.gateway.url, document_house.token("carol"))
    run = Import(client, tmp_path, "kb-executive")
    assert await run.run() == 1
    assert [(one.outcome, one.reason) for one in run.outcomes] == [("failed", "not_found")]


async def test_rebuilding_is_absent_for_whom_policy_gives_no_such_duty(document_house: DocumentHouse) -> None:
    async with PlacetClient(document_house.gateway.url, document_house.token("alice")) as client:
        with pytest.raises(NotFoundError):
            await client.documents.start_rebuild()
        with pytest.raises(NotFoundError):
            await client.documents.rebuild("rebuild-1")


async def _placet(house: DocumentHouse, who: str, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """The command itself, as a process: exit code, output, what it said beside."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "placet.cli.main", "docs", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            **os.environ,
            "COLUMNS": "200",
            "PLACET_URL": house.gateway.url,
            "PLACET_TOKEN": house.token(who),
            **environment,
        },
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.fixture(scope="module")
async def quay(document_house: DocumentHouse) -> DocumentHouse:
    return await document_house.tenant_of_its_own("quay")


async def test_import_command_shows_its_progress_and_tells_what_became_of_each_file(
    quay: DocumentHouse, tmp_path: Path
) -> None:
    (tmp_path / "mole.md").write_text("# Mole\n\nThe mole is closed in storms.\n", encoding="utf-8")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 no")
    command = ("import", str(tmp_path), "--kb", "kb-policies")
    code, out, err = await _placet(quay, "kim", *command, "--json", FORCE_COLOR="1")
    outcomes = {one["file"]: (one["outcome"], one["reason"]) for one in map(json.loads, out.splitlines())}
    assert outcomes, err
    assert (code, outcomes) == (1, {"broken.pdf": ("failed", "corrupt"), "mole.md": ("imported", None)})
    assert "sending mole.md" in err
    assert "reading" in err
    assert "2/2" in err
    (tmp_path / "broken.pdf").unlink()
    code, out, err = await _placet(quay, "kim", *command, "--publish")
    assert (code, "published" in out, "mole.md" in out) == (0, True, True)


async def test_import_command_into_an_unknown_base_or_without_the_right_says_so_for_each_file(
    document_house: DocumentHouse, tmp_path: Path
) -> None:
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    for who, base, reason in (("carol", "kb-of-nobody", "not_found"), ("alice", "kb-policies", "permission_denied")):
        code, out, _ = await _placet(document_house, who, "import", str(tmp_path), "--kb", base, "--json")
        assert (code, json.loads(out)["reason"]) == (1, reason)
    bad = await _placet(document_house, "carol", "import", str(tmp_path), "--kb", "kb-policies", PLACET_TOKEN="forged")
    assert (bad[0], "unauthenticated" in bad[2], bad[1]) == (1, True, "")


@pytest.mark.spec("K2")
async def test_reindex_command_follows_the_rebuilding_to_its_end(quay: DocumentHouse) -> None:
    document_id = await quay.published(b"# Fog\n\nThe foghorn sounds twice.\n", who="kim", title="Fog")
    code, out, err = await _placet(quay, "kim", "reindex", "--json", FORCE_COLOR="1")
    rebuilt = json.loads(out)
    assert (code, rebuilt["state"], rebuilt["failed"]) == (0, "finished", 0)
    assert rebuilt["done"] == rebuilt["total"] >= 1
    assert "rebuilding" in err
    assert (await quay.found("kim", "foghorn sounds"))[0] == document_id
    code, out, _ = await _placet(quay, "kim", "reindex")
    assert (code, "rebuilt" in out) == (0, True)


async def test_reindex_command_of_whom_policy_gives_no_such_duty_finds_nothing(document_house: DocumentHouse) -> None:
    code, out, err = await _placet(document_house, "alice", "reindex")
    assert (code, out, "not_found" in err) == (1, "", True)
