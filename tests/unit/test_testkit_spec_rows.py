"""The specification report, and what tests require of a machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from placet.policy import opa_binary
from placet.testkit.requirements import MissingError, opa_or_reason, required
from placet.testkit.spec_rows import ROWS, Row, by_row, load, render, unknown


@dataclass(frozen=True)
class Mark:
    args: tuple[str, ...]


@dataclass(frozen=True)
class Item:
    """What the report sees of a collected test."""

    nodeid: str
    marks: tuple[Mark, ...] = ()

    def iter_markers(self, name: str) -> Iterable[Mark]:
        return self.marks if name == "spec" else ()


ITEMS = [
    Item("tests/a.py::test_one[x]", (Mark(("T1", "A2")),)),
    Item("tests/a.py::test_one[y]", (Mark(("T1", "A2")),)),
    Item("tests/a.py::test_two", (Mark(("T1",)), Mark(("L1",)))),
    Item("tests/a.py::test_unmarked"),
]


def _write(root: Path, text: str) -> None:
    (root / ROWS).parent.mkdir()
    (root / ROWS).write_text(text, encoding="utf-8")


def test_rows_are_read_in_order_without_comments(tmp_path: Path) -> None:
    _write(tmp_path, "# a comment\nT1  One declaration\n\nT6\n")
    assert load(tmp_path) == [Row("T1", "One declaration"), Row("T6", "")]


def test_row_named_twice_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, "T1 a\nT1 b\n")
    with pytest.raises(ValueError, match="T1 twice"):
        load(tmp_path)


def test_tests_are_listed_once_under_every_row_they_name() -> None:
    assert by_row(ITEMS) == {
        "T1": ["tests/a.py::test_one", "tests/a.py::test_two"],
        "A2": ["tests/a.py::test_one"],
        "L1": ["tests/a.py::test_two"],
    }


def test_row_that_does_not_exist_is_named() -> None:
    assert unknown([Row("T1", ""), Row("A2", "")], ["T1", "A2", "T99", "t1"]) == ["T99", "t1"]


def test_report_ends_with_the_rows_without_tests() -> None:
    shown = render([Row("T1", "One"), Row("T6", ""), Row("W1", "Two")], {"T1": ["tests/a.py::test_one"]})
    assert "T1   One (1)\n       tests/a.py::test_one\n" in shown
    assert shown.endswith("1 of 3 rows have tests.\nWithout: T6, W1\n")


def test_rows_of_this_specification_are_all_there(root: Path) -> None:
    ids = [row.id for row in load(root)]
    counts = {"T": 14, "W": 12, "R": 6, "G": 13, "A": 11, "C": 7, "I": 4, "K": 5, "U": 6, "M": 1, "L": 2}
    expected = [f"{letter}{number}" for letter, count in counts.items() for number in range(1, count + 1)]
    assert sorted(ids) == sorted([*expected, "B1", "B3", "B5", "B9", "B10"])


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("yes", True), ("", False), ("0", False), ("False", False)]
)
def test_requirement_is_read_from_the_environment(value: str, expected: bool) -> None:
    assert required("PLACET_REQUIRE_OPA", {"PLACET_REQUIRE_OPA": value}) is expected


def test_opa_absent_is_a_reason_to_skip_but_an_error_where_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opa_binary.shutil, "which", lambda _: None)
    binary, reason = opa_or_reason(tmp_path, {})
    assert binary is None
    assert "make opa" in reason
    with pytest.raises(MissingError, match="PLACET_REQUIRE_OPA"):
        opa_or_reason(tmp_path, {"PLACET_REQUIRE_OPA": "1"})
