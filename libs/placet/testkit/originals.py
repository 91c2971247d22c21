"""Original files in memory."""

from __future__ import annotations


class MemoryOriginals:
    """An `OriginalStore` for tests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def put(self, key: str, data: bytes) -> None:
        self.files[key] = data

    async def get(self, key: str) -> bytes:
        return self.files[key]
