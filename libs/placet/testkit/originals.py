"""Original files in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


class MemoryOriginals:
    """An `OriginalStore` for tests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.staged: dict[str, dict[int, bytes]] = {}

    async def put(self, key: str, data: bytes) -> None:
        self.files[key] = data

    async def get(self, key: str) -> bytes:
        return self.files[key]

    async def read(self, key: str, offset: int, limit: int) -> bytes:
        return self.files[key][offset : offset + limit]

    async def stage(self, upload: str, index: int, data: bytes) -> int:
        self.staged.setdefault(upload, {})[index + 1] = data
        return index + 1

    async def adopt(self, upload: str, key: str, places: Sequence[int], *, part: int, size: int, sha256: str) -> None:
        data = b"".join(self.staged.get(upload, {})[place] for place in places)
        if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
            raise ValueError("the stored parts are not the file that was announced")
        self.files[key] = data

    async def discard(self, upload: str, key: str) -> None:
        self.staged.pop(upload, None)
