"""What ends a drive of a run early."""

from __future__ import annotations


class LeaseLostError(Exception):
    """Another worker may drive this run by now: stop without another word."""


class FencedError(Exception):
    """Somebody else has appended to this run: what this drive believes is out of date."""


class AbandonedError(Exception):
    """What this run was begun with is gone: it is ended without driving it any further."""

    def __init__(self, reasons: tuple[str, ...]) -> None:
        super().__init__(", ".join(reasons))
        self.reasons = reasons


class NotParkedError(Exception):
    """A decision came for a proposal on which the run does not wait yet."""


class ModelUnavailableError(Exception):
    """The language model gave no usable answer within its retries. `reason` is a stable word, never model text."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnsafeStateError(TypeError):
    """Something that must not be persisted was about to be written into a checkpoint."""


class UnreadableStateError(Exception):
    """A checkpoint that cannot be decrypted: its key is gone, or somebody has changed it."""


class DrainedError(Exception):
    """This worker is stopping: the run goes on elsewhere."""
