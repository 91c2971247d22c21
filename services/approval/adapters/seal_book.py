"""The chain of seals on its stream, for the sealer."""

from __future__ import annotations

from placet.audit.sealer import Chain, SealRaceError
from placet.audit.trail import AuditTrail
from placet.contracts.audit import SEAL_TENANT, Sealed
from placet.messaging.append import ConflictError
from placet.messaging.seals import SealStream


class StreamSealBook:
    """Implements `SealBook`. What is no seal of ours is passed over, stays where it is, and is alarmed once."""

    def __init__(self, seals: SealStream, audit: AuditTrail) -> None:
        self._seals = seals
        self._audit = audit
        self._alarmed: set[tuple[str, int]] = set()

    async def chain(self, stream: str) -> Chain:
        last, position, strangers = await self._seals.end(stream)
        for place in strangers:
            if (stream, place) in self._alarmed:
                continue
            self._alarmed.add((stream, place))
            await self._audit.security_event(SEAL_TENANT, "bad_seal", note=f"{stream}: sequence {place} of the seals")
        return Chain(last, position)

    async def append(self, seal: Sealed, position: int) -> Chain:
        try:
            return Chain(seal, await self._seals.append(seal, position))
        except ConflictError as error:
            raise SealRaceError(seal.stream) from error
