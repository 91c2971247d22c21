"""The record as files: one JSON document per message and line, to be kept, and proven, where no bus is."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from placet.audit.verify import Archive
from placet.contracts.audit import SEALED_STREAMS
from placet.contracts.stored import StoredBytes

# What signatures are checked against; the rest of the headers says nothing that is not in the message.
_KEPT = ("Placet-", "Nats-Expected-", "Nats-Msg-Id")


class ExportError(ValueError):
    """A file is no export; the message names the line."""


async def write(archive: Archive, directory: Path) -> dict[str, int]:
    """Write `<stream>.events.jsonl` and `<stream>.seals.jsonl` per sealed stream; returns how many events each got.

    Seals first: an event that comes meanwhile is then one that is not sealed yet.
    """
    folder = _made(directory)
    counts: dict[str, int] = {}
    for stream in SEALED_STREAMS:
        await _write_all(archive.seals(stream), folder / f"{stream}.seals.jsonl")
        counts[stream] = await _write_all(archive.events(stream), folder / f"{stream}.events.jsonl")
    return counts


def _made(directory: Path) -> Path:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


async def _write_all(messages: AsyncIterator[StoredBytes], file: Path) -> int:
    count = 0
    with file.open("w", encoding="utf-8") as out:
        async for message in messages:
            out.write(_line(message))
            count += 1
    return count


def _line(message: StoredBytes) -> str:
    headers = {name: value for name, value in message.headers.items() if name.startswith(_KEPT)}
    payload = base64.b64encode(message.payload).decode()
    document = {"seq": message.seq, "subject": message.subject, "time": message.time, "headers": headers}
    return json.dumps({**document, "payload": payload}, ensure_ascii=False) + "\n"


class ExportedArchive:
    """Implements `Archive` on an export's files. Raises `FileNotFoundError`, or `ExportError` for a damaged line."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def events(self, stream: str) -> AsyncIterator[StoredBytes]:
        for message in _read(self._directory / f"{stream}.events.jsonl"):
            yield message

    async def seals(self, stream: str) -> AsyncIterator[StoredBytes]:
        for message in _read(self._directory / f"{stream}.seals.jsonl"):
            yield message


def _read(file: Path) -> Iterator[StoredBytes]:
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                found = json.loads(line)
                payload = base64.b64decode(found["payload"], validate=True)
                yield StoredBytes(int(found["seq"]), found["subject"], payload, dict(found["headers"]), found["time"])
            except (ValueError, KeyError, TypeError, binascii.Error) as error:
                raise ExportError(f"{file.name}, line {number}: not a message of an export") from error
