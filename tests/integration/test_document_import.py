"""`placet docs import`: a directory through the HTTP door, again and again."""

from __future__ import annotations

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
