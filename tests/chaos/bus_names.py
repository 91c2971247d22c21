"""What a message is, in words: the kinds by which points are named."""

from __future__ import annotations

from tests.chaos.bus_frames import Frame

Named = tuple[str, bytes]

_ACK_WORDS = {b"": "acknowledgement", b"+ACK": "acknowledgement", b"-NAK": "postponement", b"+TER": "termination"}
_REMEMBERED = 512


class Names:
    """Of one connection: an acknowledgement or an answer is named by the message that it belongs to."""

    def __init__(self) -> None:
        self._open: dict[str, Named] = {}

    def said(self, frame: Frame) -> Named | None:
        """The kind of a message that the service sends, and the bytes that tell which run it belongs to."""
        subject = frame.subject
        if subject in self._open:
            return self._of_answer(frame)
        kind = _kind(subject)
        return (kind, frame.raw) if kind else None

    def heard(self, frame: Frame) -> Named | None:
        """The same for one that it receives; its acknowledgement or answer is known from then on."""
        kind = _kind(frame.subject)
        if kind is None or not frame.reply:
            return None
        durable = _durable(frame.reply)
        arrival = f"{kind} for {durable}" if durable else kind
        self._open[frame.reply] = (arrival, frame.raw)
        if len(self._open) > _REMEMBERED:
            self._open.pop(next(iter(self._open)))
        return f"arrival of {arrival}", frame.raw

    def _of_answer(self, frame: Frame) -> Named | None:
        what, raw = self._open[frame.subject]
        if not what.startswith("event") and not what.startswith("queued") and not what.startswith("timer"):
            return f"answer to {what}", raw + frame.raw
        word = _ACK_WORDS.get(frame.payload[:4])
        return (f"{word} of {what}", raw) if word else None


def _kind(subject: str) -> str | None:
    match subject.split("."):
        case ["placet", _, "audit", "evt", name, *_]:
            return f"record {name}"
        case ["placet", _, _, "evt", name, *_]:
            return f"event {name}"
        case ["placet", _, _, "cmd", name, _, _entity]:
            return f"queued {name}"
        case ["placet", _, _, "cmd", name, *_]:
            return f"command {name}"
        case ["$KV", "COUNTERS", _, "spending", *_]:
            return "day of COUNTERS"
        case ["$KV", bucket, *_]:
            return f"key of {bucket}"
        case ["timers", kind, *_]:
            return "timer" if kind == "at" else "timer fired"
        case [*_, "STREAM", "MSG", "GET", stream]:
            return f"read of {stream}"
        case [*_, "DIRECT", "GET", stream]:
            return f"read of {stream}"
        case _:
            return None


def _durable(reply: str) -> str:
    """The consumer that a delivery comes from; empty for what is no delivery."""
    return next((part.removesuffix("-v1") for part in reply.split(".") if "__" in part), "")
