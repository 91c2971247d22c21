"""The READY line, there and back."""

from __future__ import annotations

import pytest

from placet.client import ReadyLine

LINE = ReadyLine(
    gateway="http://127.0.0.1:8080",
    nats="nats://127.0.0.1:4222",
    tokens={"alice": "a"},
    pids={"gateway": 1, "nats": 6},
    policy_engine="opa",
)


def test_ready_line_rendered_is_one_line_that_parses_back() -> None:
    text = LINE.render()
    assert text.startswith('READY {"gateway":')
    assert "\n" not in text
    assert ReadyLine.parse(text + "\n") == LINE


@pytest.mark.parametrize("line", ["", "READY", "READY {}", "READY [1]", "ready {}", "READY {", "starting nats"])
def test_ready_line_of_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ReadyLine.parse(line)
