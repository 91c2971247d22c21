"""Seals on their stream: signed, appended by compare-and-set, read only if the signature holds."""

from __future__ import annotations

from pydantic import ValidationError

from placet.contracts.audit import SEAL_OWNER, SEAL_TENANT, SEALED, Sealed
from placet.contracts.errors import PlacetError
from placet.contracts.stored import StoredBytes
from placet.identity.signing import EventSigner, EventVerifier
from placet.messaging import wire
from placet.messaging.append import Appender, NewEvent
from placet.messaging.archive import SEAL_STREAM, seal_subject
from placet.messaging.connection import Bus
from placet.messaging.reading import EventReader, signature_of


class SealStream:
    """The writer's side: one chain per sealed stream."""

    def __init__(self, bus: Bus, signer: EventSigner, verifier: EventVerifier) -> None:
        self._appender = Appender(bus, SEAL_OWNER, SEAL_STREAM, signer)
        self._reader = EventReader(bus, SEAL_STREAM)
        self._seals = SealReader(verifier)

    async def end(self, stream: str) -> tuple[Sealed | None, int, list[int]]:
        """The last good seal, the position of the last message of its chain, and positions behind it that hold none."""
        subject = seal_subject(stream)
        message = await self._reader.raw_last(subject)
        if message is None:
            return None, 0, []
        seal = self._seals.signed(message)
        return (seal, message.seq, []) if seal else await self._last_good(subject)

    async def append(self, seal: Sealed, position: int) -> int:
        """Returns the seal's own position. Raises `ConflictError` when the chain has moved past `position`."""
        return (await self._appender.append(SEAL_TENANT, NewEvent(SEALED, seal.stream, seal), position)).seq

    async def _last_good(self, subject: str) -> tuple[Sealed | None, int, list[int]]:
        good: Sealed | None = None
        position, bad = 0, list[int]()
        while page := await self._reader.raw_page(subject, after=position):
            for message in page:
                if seal := self._seals.signed(message):
                    good, bad = seal, []
                else:
                    bad.append(message.seq)
            position = page[-1].seq
        return good, position, bad


class SealReader:
    """Reads a stored message as a seal; what is not signed for its very place is none."""

    def __init__(self, verifier: EventVerifier) -> None:
        self._verifier = verifier

    def __call__(self, stored: StoredBytes, previous: int) -> Sealed | None:
        _, said = signature_of(stored.headers)
        return self.signed(stored) if said == previous else None

    def signed(self, stored: StoredBytes) -> Sealed | None:
        if not signed(stored, self._verifier):
            return None
        try:
            seal = Sealed.model_validate(wire.decode(stored.payload).data)
        except (PlacetError, ValidationError):
            return None
        return seal if stored.subject == seal_subject(seal.stream) else None


def signed(stored: StoredBytes, verifier: EventVerifier) -> bool:
    """Whether a message carries a valid signature over its subject, the previous sequence it names, and its payload."""
    signature, previous = signature_of(stored.headers)
    return verifier.verify(signature, stored.subject, previous, stored.payload)
