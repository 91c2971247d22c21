"""Generated files say what the contracts say, and golden files hold v1 of every message fast."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from placet.cli import generate as generator
from placet.cli.generate import GOLDEN, Golden, documents, generate, goldens, unreadable
from placet.contracts.registry import COMMANDS, EVENTS


@pytest.mark.parametrize("path", documents(), ids=str)
def test_generated_document_in_the_repository_is_up_to_date(path: Path, root: Path) -> None:
    made = documents()[path]()
    assert (root / path).read_text(encoding="utf-8") == made, "run `placet generate`"


def test_golden_files_in_the_repository_are_up_to_date(root: Path) -> None:
    found = [line for line in generate(root, check=True) if line.startswith(str(GOLDEN))]
    assert found == []


def test_golden_files_exist_for_every_message_and_its_reply() -> None:
    names = {golden.name for golden in goldens()}
    assert {f"{spec.owner}.{spec.name}" for spec in (*COMMANDS, *EVENTS)} <= names
    assert {f"{spec.owner}.{spec.name}.reply" for spec in COMMANDS if spec.reply} <= names
    assert len(names) == len(goldens())


class Before(BaseModel):
    model_config = ConfigDict(extra="ignore")

    proposal_id: str
    by: str
    message: str | None = None


class Grown(Before):
    note: str | None = None


class Renamed(BaseModel):
    model_config = ConfigDict(extra="ignore")

    proposal_id: str
    decided_by: str = ""
    message: str | None = None


@pytest.fixture
def one_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A repository with one message and no documents, generated once from `Before`."""
    monkeypatch.setattr(generator, "documents", dict)
    monkeypatch.setattr(generator, "goldens", lambda: [Golden("approval.rejected", Before)])
    assert generate(tmp_path, check=False) == []
    assert generate(tmp_path, check=True) == []
    return tmp_path


def _becomes(monkeypatch: pytest.MonkeyPatch, *messages: Golden) -> None:
    monkeypatch.setattr(generator, "goldens", lambda: list(messages))


def test_generate_with_check_writes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generator, "documents", lambda: {Path("deploy/made.txt"): lambda: "text\n"})
    monkeypatch.setattr(generator, "goldens", lambda: [Golden("approval.rejected", Before)])
    assert len(generate(tmp_path, check=True)) == 3
    assert list(tmp_path.iterdir()) == []
    assert generate(tmp_path, check=False) == []
    assert (tmp_path / "deploy/made.txt").read_text(encoding="utf-8") == "text\n"
    assert generate(tmp_path, check=True) == []
    (tmp_path / "deploy/made.txt").write_text("by hand\n", encoding="utf-8")
    assert len(generate(tmp_path, check=True)) == 1


def test_generate_without_the_gateway_installed_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generator, "OPENAPI", "services.no_such_service.openapi:document")
    found = generate(tmp_path, check=True)
    assert any(line.startswith("deploy/openapi.json: cannot be made") for line in found)


def test_message_that_gained_an_optional_field_is_reported_then_accepted(
    monkeypatch: pytest.MonkeyPatch, one_message: Path
) -> None:
    _becomes(monkeypatch, Golden("approval.rejected", Grown))
    assert len(generate(one_message, check=True)) == 1
    assert generate(one_message, check=False) == []
    assert generate(one_message, check=True) == []


def test_payload_once_written_is_kept_when_the_message_grows(
    monkeypatch: pytest.MonkeyPatch, one_message: Path
) -> None:
    payload = one_message / GOLDEN / "approval.rejected.payload.json"
    before = payload.read_text(encoding="utf-8")
    _becomes(monkeypatch, Golden("approval.rejected", Grown))
    generate(one_message, check=False)
    assert payload.read_text(encoding="utf-8") == before
    assert "note" not in json.loads(before)


def test_message_that_lost_a_field_is_refused_and_not_overwritten(
    monkeypatch: pytest.MonkeyPatch, one_message: Path
) -> None:
    schema = one_message / GOLDEN / "approval.rejected.schema.json"
    before = schema.read_text(encoding="utf-8")
    _becomes(monkeypatch, Golden("approval.rejected", Renamed))
    for check in (True, False):
        found = generate(one_message, check=check)
        assert any("/by: the field was lost" in line for line in found)
        assert any("these are not read any more: /by" in line for line in found)
    assert schema.read_text(encoding="utf-8") == before


def test_message_that_broke_before_release_can_be_accepted_on_purpose(
    monkeypatch: pytest.MonkeyPatch, one_message: Path
) -> None:
    _becomes(monkeypatch, Golden("approval.rejected", Renamed))
    assert generate(one_message, check=False, accept_breaking=True) == []
    assert generate(one_message, check=True) == []


def test_message_that_vanished_is_reported(monkeypatch: pytest.MonkeyPatch, one_message: Path) -> None:
    _becomes(monkeypatch)
    for check in (True, False):
        assert len([line for line in generate(one_message, check=check) if "no such message any more" in line]) == 2
    generate(one_message, check=False, accept_breaking=True)
    assert generate(one_message, check=True) == []


def test_payload_of_yesterday_that_is_not_read_in_full_is_named() -> None:
    assert unreadable(Before, {"proposal_id": "p", "by": "dave"}) is None
    assert unreadable(Grown, {"proposal_id": "p", "by": "dave", "message": None}) is None
    assert unreadable(Renamed, {"proposal_id": "p", "by": "dave"}) == "these are not read any more: /by"
    assert str(unreadable(Before, {"proposal_id": "p"})).startswith("cannot be read any more")


def test_payload_whose_listed_items_gained_an_optional_field_is_still_read() -> None:
    class Page(BaseModel):
        items: tuple[Grown, ...]

    class Lost(BaseModel):
        items: tuple[Renamed, ...]

    page = {"items": [{"proposal_id": "p", "by": "dave"}]}
    assert unreadable(Page, page) is None
    assert unreadable(Lost, page) == "these are not read any more: /items/0/by"
