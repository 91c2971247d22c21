"""Content keys and the cache folder: what has not changed is not built again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

CACHE = Path(".placet/images")


def files_in(path: Path) -> list[Path]:
    """The path itself, or every file below it, sorted; byte code is not content."""
    if path.is_file():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def content_key(paths: Iterable[Path], *words: str) -> str:
    """A short digest of files (their paths and bytes) and words."""
    digest = hashlib.sha256("\0".join(words).encode())
    for path in paths:
        for file in files_in(path):
            digest.update(f"\0{file}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:16]
