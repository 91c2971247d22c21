"""Server-sent events of a run: frames, where to begin, and what to do with an event that has just arrived."""

from __future__ import annotations

from enum import StrEnum

import orjson

from placet.contracts.runs import SSE_TYPES
from services.gateway.domain.runs import WAITING, RunSeen, card

HEARTBEAT = b": heartbeat\n\n"
_MAX_ID_DIGITS = 12


def frame(seen: RunSeen) -> bytes:
    """One event as bytes on the wire. JSON holds no raw line break, so one `data:` line is enough."""
    type_ = SSE_TYPES[seen.name]
    document = {
        "run_id": seen.event.run_id,
        "seq": seen.seq,
        "type": type_,
        "time": seen.time,
        "data": card(seen.event.data) if seen.name == WAITING else seen.event.data,
    }
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seen.seq, type_.encode(), orjson.dumps(document))


def start_after(last_event_id: str | None) -> int:
    """The sequence after which to begin. An id that is none of ours means: from the start."""
    offered = (last_event_id or "").strip()
    usable = offered.isascii() and offered.isdigit() and len(offered) <= _MAX_ID_DIGITS
    return int(offered) if usable else 0


class Arrival(StrEnum):
    """What an event is to a client that has been given everything up to a sequence."""

    NEXT = "next"
    SEEN = "seen"
    AHEAD = "ahead"


class Progress:
    """How far one client has come: `seq` within the run, `position` on the stream."""

    def __init__(self, after: int) -> None:
        self.seq = after
        self.position = 0
        self._known = 0

    @property
    def behind(self) -> bool:
        """Whether an event is known to exist that could not be given yet."""
        return self.seq < self._known

    def judge_live(self, seen: RunSeen) -> Arrival:
        """`AHEAD` means that events in between were missed and are to be read from the stream first."""
        if seen.seq <= self.seq:
            return Arrival.SEEN
        self._known = max(self._known, seen.seq)
        if seen.seq > self.seq + 1:
            return Arrival.AHEAD
        self._given(seen)
        return Arrival.NEXT

    def judge_stored(self, seen: RunSeen) -> Arrival:
        """Events read from the stream come in order, so there is never anything in between."""
        self.position = max(self.position, seen.position)
        if seen.seq <= self.seq:
            return Arrival.SEEN
        self._given(seen)
        return Arrival.NEXT

    def settle_start(self, last_stored: int) -> None:
        """A client that claims to have seen more than there is has an id of something else: from the start."""
        if self.position == 0 and self.seq > last_stored:
            self.seq = 0

    def _given(self, seen: RunSeen) -> None:
        self.seq = seen.seq
        self.position = max(self.position, seen.position)
