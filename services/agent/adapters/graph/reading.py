"""Results of reads: taken in when they come, read again by a drive that begins in the middle, shown to the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placet.contracts.errors import PlacetError
from placet.contracts.execution import Budget, Citation, ToolReply
from placet.contracts.tools import Route
from placet.observability import logs
from services.agent.adapters.graph.context import DriveContext
from services.agent.domain import fence
from services.agent.domain.asking import ToldCall
from services.agent.domain.calls import Call, CallStatus, Ref, by_id
from services.agent.domain.evidence import SEARCH, Evidence, from_citation, from_search, readable
from services.agent.domain.patience import CALL_AWAY
from services.agent.domain.told import told_of_call
from services.agent.ports import Influence, ToolDoor

log = logs.get(__name__)

_TIMEOUT_S = 10.0


class Reading:
    def __init__(self, tools: ToolDoor) -> None:
        self._tools = tools

    def take_in(self, drive: DriveContext, call: Call, reply: ToolReply) -> None:
        """Keep a read's result for the rest of this drive."""
        result = reply.result or {}
        drive.bodies[call.call_id] = result
        drive.pieces |= {piece.chunk_id: piece for piece in from_search(result, call.refs)}

    async def restore(self, drive: DriveContext, calls: Sequence[Call], route: Route) -> None:
        """Read again what an earlier drive has read, with the rights of now; what is gone stays away."""
        missing = [call for call in calls if _is_read(call) and call.call_id not in drive.bodies]
        refs = {ref.chunk_id: ref for call in missing if call.tool == SEARCH for ref in call.refs}
        if refs:
            citations = await self.resolve(drive, list(refs.values()))
            drive.pieces |= {c.chunk_id: from_citation(c, refs[c.chunk_id]) for c in citations}
        for call in missing:
            drive.bodies[call.call_id] = {} if call.tool == SEARCH else await self._again(drive, call, route)

    async def resolve(self, drive: DriveContext, refs: Iterable[Ref]) -> tuple[Citation, ...]:
        """What of this evidence may be shown now; nothing for a run whose grant has ended.

        Raises `PlacetError` while the executor is away.
        """
        wanted = list(dict.fromkeys(ref.chunk_id for ref in refs))
        try:
            return await self._tools.resolve(drive.run, wanted)
        except PlacetError as error:
            if error.retryable:
                raise
            log.warning("evidence was not resolved", code=error.code)
            return ()

    async def current(self, drive: DriveContext, calls: Sequence[Call]) -> tuple[list[Evidence], tuple[Citation, ...]]:
        """The evidence of this run as its owner may see it at this moment, and the citations that go with it."""
        refs = [ref for call in calls if _is_read(call) and call.tool == SEARCH for ref in call.refs]
        citations = await self.resolve(drive, refs)
        pieces = readable(drive.pieces.values(), citations)
        known = {citation.chunk_id: citation for citation in citations}
        return pieces, tuple(known[piece.chunk_id] for piece in pieces)

    async def still_readable(self, drive: DriveContext, records: Sequence[Call]) -> list[Call]:
        """Of records, those whose document versions, if they are of any, the owner may read at this moment.

        Raises `PlacetError` while the executor is away.
        """
        wanted = list(dict.fromkeys(ref.chunk_id for call in records for ref in call.refs))
        if not wanted:
            return list(records)
        try:
            allowed = await self._tools.readable(drive.run, wanted)
        except PlacetError as error:
            if error.retryable:
                raise
            log.warning("records were not authorized again", code=error.code)
            allowed = frozenset()
        return [call for call in records if allowed.issuperset(ref.chunk_id for ref in call.refs)]

    def told(self, drive: DriveContext, calls: Sequence[Call]) -> tuple[ToldCall, ...]:
        """Every settled call as a model is told of it."""
        told = []
        for call in calls:
            first = by_id(calls, call.repeats) if call.repeats else call
            if first is None or not first.settled or first.status is CallStatus.DROPPED:
                continue
            pieces = [drive.pieces[ref.chunk_id] for ref in first.refs if ref.chunk_id in drive.pieces]
            body = drive.bodies.get(first.call_id)
            answer = fence.evidence(pieces) if pieces else fence.data(call.tool, told_of_call(first, body))
            told.append(ToldCall(call.call_id, call.step, call.tool, call.args, answer))
        return tuple(told)

    async def _again(self, drive: DriveContext, call: Call, route: Route) -> dict[str, object]:
        try:
            reply = await self._tools.execute(
                drive.run, call, route, influence=Influence(), budget=Budget(), timeout_s=_TIMEOUT_S
            )
        except PlacetError as error:
            if error.code in CALL_AWAY and drive.patient:
                raise
            log.info("a result is gone", tool=call.tool, code=error.code)
            return {}
        return reply.result or {}


def influence_of(calls: Iterable[Call]) -> Influence:
    """What the evidence seen so far brings with it: ids, authors, and documents nobody vouches for."""
    refs = [ref for call in calls if call.succeeded for ref in call.refs]
    return Influence(
        lineage=tuple(dict.fromkeys(ref.chunk_id for ref in refs))[:200],
        authors=tuple(dict.fromkeys(author for ref in refs for author in ref.authors))[:200],
        untrusted_documents=tuple(dict.fromkeys(ref.document_id for ref in refs if not ref.trusted))[:200],
    )


def is_record(call: Call) -> bool:
    """Whether the call's result is a record to be told of, rather than passages to be cited."""
    return _is_read(call) and call.tool != SEARCH


def _is_read(call: Call) -> bool:
    return call.reads and call.status is CallStatus.OK and call.repeats is None
