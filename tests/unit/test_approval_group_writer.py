"""Writing in groups: what follows closely is written together, and what cannot be written holds up only itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from services.approval.adapters.group_writer import GroupWriter


class Sheet:
    """Remembers every write; the first one waits until it is let go; a negative value cannot be written."""

    def __init__(self) -> None:
        self.writes: list[list[int]] = []
        self.begun, self.go = asyncio.Event(), asyncio.Event()
        self.writer: GroupWriter[int] = GroupWriter(self._write, max, gather_s=0.001)

    async def _write(self, values: Sequence[int]) -> None:
        self.writes.append(list(values))
        self.begun.set()
        if len(self.writes) == 1:
            await self.go.wait()
        if min(values) < 0:
            raise ValueError("negative")

    async def while_writing(self, *values: tuple[str, int]) -> list[BaseException | None]:
        """The ends of `values`, all put while the write of a zero is under way."""
        first = asyncio.create_task(self.writer.put(("first",), 0))
        await self.begun.wait()
        others = [asyncio.create_task(self.writer.put((key,), value)) for key, value in values]
        await asyncio.sleep(0)
        self.go.set()
        await first
        return await asyncio.gather(*others, return_exceptions=True)


async def test_values_that_follow_closely_are_one_write() -> None:
    sheet = Sheet()
    sheet.go.set()
    await asyncio.gather(sheet.writer.put(("b",), 2), sheet.writer.put(("a",), 1))
    assert sheet.writes == [[1, 2]]


async def test_what_comes_during_a_write_is_written_together_afterwards() -> None:
    sheet = Sheet()
    assert await sheet.while_writing(("b", 2), ("a", 1)) == [None, None]
    assert sheet.writes == [[0], [1, 2]]


async def test_two_values_of_a_key_are_one_row_the_later_one() -> None:
    sheet = Sheet()
    assert await sheet.while_writing(("a", 5), ("a", 3)) == [None, None]
    assert sheet.writes == [[0], [5]]


async def test_a_value_that_cannot_be_written_fails_alone() -> None:
    sheet = Sheet()
    good, bad, other = await sheet.while_writing(("a", 1), ("b", -1), ("c", 3))
    assert (good, other) == (None, None)
    assert isinstance(bad, ValueError)
    assert sheet.writes[2:] == [[1], [-1], [3]]


async def test_a_value_after_a_failed_one_is_written_as_ever() -> None:
    sheet = Sheet()
    sheet.go.set()
    with pytest.raises(ValueError, match="negative"):
        await sheet.writer.put(("a",), -1)
    await sheet.writer.put(("a",), 1)
    assert sheet.writes[-1] == [1]
