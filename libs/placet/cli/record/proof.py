"""`placet audit verify`: what holds and what does not, stream by stream, and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from placet.audit.verify import Archive, Broken, Fault, Head, Report, Verifier
from placet.contracts.audit import SEALED_STREAMS
from placet.contracts.stored import StoredBytes
from placet.identity import keys as key_files
from placet.identity.signing import EventVerifier
from placet.messaging.seals import SealReader, signed

_SIGNERS = {"APPROVALS": "approval", "EFFECTS": "effect"}

_WORDS: Mapping[Fault, str] = {
    Fault.CHANGED: "event {seq} ({subject}) is not what was sealed (seal {seal})",
    Fault.MISSING: "event {seq} is missing (seal {seal})",
    Fault.ADDED: "event {seq} ({subject}) lies where nothing lay when it was sealed (seal {seal})",
    Fault.BAD_SIGNATURE: "event {seq} ({subject}) is not signed by the service that writes it",
    Fault.BAD_SEAL: "seal {seal} is not signed by the sealer, or damaged",
    Fault.BROKEN_CHAIN: "seal {seal} does not follow the one before it",
    Fault.ROLLED_BACK: "seal {seal}, seen earlier, is not there as it was: the record was rolled back or made anew",
    Fault.UNSEALED: "event {seq} ({subject}) is not sealed although it is old: nobody seals, or seals were taken away",
}


def public_keys(directory: Path, name: str) -> EventVerifier:
    """All `<name>*.public.jwk`, so that a key may be replaced and its old signatures still hold.

    Raises `FileNotFoundError` when there is none, `ValueError` for a file that is no key.
    """
    files = sorted(directory.glob(f"{name}*.public.jwk"))
    if not files:
        raise FileNotFoundError(f"no {name}.public.jwk in {directory}")
    return EventVerifier([key_files.read(file) for file in files])


async def prove(archive: Archive, keys: Path, heads: Mapping[str, Head]) -> list[Report]:
    """Check every sealed stream, each up to its first fault."""
    verifier = Verifier(
        archive=archive,
        read_seal=SealReader(public_keys(keys, "audit")),
        signatures={stream: _Signed(public_keys(keys, name)) for stream, name in _SIGNERS.items()},
        heads=heads,
    )
    return [await verifier.verify(stream, datetime.now(UTC)) for stream in SEALED_STREAMS]


class _Signed:
    def __init__(self, verifier: EventVerifier) -> None:
        self._verifier = verifier

    def __call__(self, stored: StoredBytes) -> bool:
        return signed(stored, self._verifier)


def line(report: Report) -> str:
    """One line for people."""
    if report.broken:
        proven = f"; before it, {report.events} events in {report.seals} seals hold" if report.seals else ""
        return f"✗ {report.stream}: {words(report.broken)}{proven}"
    text = f"✓ {report.stream}: {report.events} events in {report.seals} seals hold"
    return f"{text}; {report.unsealed} not sealed yet" if report.unsealed else text


def words(broken: Broken) -> str:
    return _WORDS[broken.fault].format(**asdict(broken))


def document(report: Report) -> dict[str, Any]:
    """The same for programs."""
    found = asdict(report)
    return {"holds": report.broken is None, **found, "text": words(report.broken) if report.broken else None}


def read_anchor(file: Path) -> dict[str, Head]:
    """The seals seen last time; none when there is no such file yet. Raises `ValueError` for one that is damaged."""
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        return {stream: Head(int(head["number"]), str(head["root"])) for stream, head in stored.items()}
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file} is not an anchor") from error


def write_anchor(file: Path, reports: list[Report]) -> None:
    heads = {report.stream: asdict(report.head) for report in reports if report.head}
    key_files.write_secret(file, json.dumps(heads))
