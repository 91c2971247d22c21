"""The client protocol of nats-server, as far as one must read it to know what a service says and hears."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_WITH_PAYLOAD = {b"PUB": 1, b"HPUB": 2, b"MSG": 1, b"HMSG": 2}
_CRLF = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of the protocol with its payload. `subject` is empty for what is no message."""

    raw: bytes
    subject: str = ""
    reply: str = ""
    payload: bytes = b""


class FrameReader:
    """Cuts a byte stream into frames; what is not complete yet is kept for the next piece."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._rest += data
        while (frame := self._next()) is not None:
            self._rest = self._rest[len(frame.raw) :]
            yield frame

    def _next(self) -> Frame | None:
        line, found, _ = self._rest.partition(b"\r\n")
        if not found:
            return None
        words = line.split()
        verb = words[0].upper() if words else b""
        end = len(line) + _CRLF
        if verb not in _WITH_PAYLOAD:
            return Frame(self._rest[:end])
        size = int(words[-1])
        whole = end + size + _CRLF
        if len(self._rest) < whole:
            return None
        heads = int(words[-2]) if verb in (b"HPUB", b"HMSG") else 0
        names = words[1 : -_WITH_PAYLOAD[verb]]
        if verb in (b"MSG", b"HMSG"):
            names = [names[0], *names[2:]]  # without the subscription's id
        reply = names[1].decode() if len(names) > 1 else ""
        return Frame(self._rest[:whole], names[0].decode(), reply, self._rest[end + heads : end + size])
