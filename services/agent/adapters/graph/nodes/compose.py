"""The answer: the program speaks of effects, refusals and limits; the model of evidence and records, with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from placet.contracts.errors import PlacetError
from placet.contracts.evidence import version_id
from placet.contracts.execution import Citation
from placet.contracts.runs import RunFinish
from placet.contracts.tools import Route
from placet.observability import metrics
from services.agent.adapters.graph.allowance import Allowance
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.deltas import Deltas
from services.agent.adapters.graph.nodes.intake import Intake
from services.agent.adapters.graph.reading import Reading, is_record
from services.agent.adapters.graph.state import RunState, Stop, calls_of, route_of, usage_of
from services.agent.domain import answers, fence
from services.agent.domain.asking import ComposePrompt
from services.agent.domain.calls import Call
from services.agent.domain.citations import CitationFilter
from services.agent.domain.evidence import Evidence
from services.agent.domain.offline.speaking import answer as extractive_answer
from services.agent.domain.outcomes import run_finish
from services.agent.domain.told import told_of_call
from services.agent.errors import ModelUnavailableError
from services.agent.ports import Draft, Model

# An answer is one message on the bus. A model that finds no end is stopped here.
_ANSWER_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Material:
    """What an answer may rest on, as its owner may see it at this moment; `unchecked` when nobody could tell."""

    pieces: list[Evidence]
    citations: tuple[Citation, ...]
    records: list[Call]
    unchecked: bool = False

    @property
    def empty(self) -> bool:
        return not self.pieces and not self.records

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The document versions that may be quoted from it."""
        passages = [version_id(piece.document_id, piece.version) for piece in self.pieces]
        whole = [version_id(ref.document_id, ref.version) for call in self.records for ref in call.refs]
        return tuple(dict.fromkeys([*passages, *whole]))

    def fenced(self, drive: DriveContext) -> str:
        told = [fence.data(call.tool, told_of_call(call, drive.bodies[call.call_id])) for call in self.records]
        return "\n".join([fence.evidence(self.pieces), *told] if self.pieces else told)


@dataclass(slots=True)
class Speech:
    """What was said: the numbers cited, the tokens used, and whether the model had to be stopped."""

    cited: list[int] = field(default_factory=list)
    tokens: int = 0
    endless: bool = False


class Composition:
    def __init__(self, model: Model, intake: Intake, reading: Reading, allowance: Allowance) -> None:
        self._model = model
        self._intake = intake
        self._reading = reading
        self._allowance = allowance

    async def compose(self, state: RunState, drive: DriveContext) -> RunState:
        tokens = await self.draft(state, drive)
        return {"usage": {"tokens": tokens}}

    async def draft(self, state: RunState, drive: DriveContext) -> int:
        """Put the draft into the context, streaming it on the way; returns the tokens used.

        What is streamed and what the draft holds are the same text. It is never part of the state: an answer quotes
        evidence, and the state outlives the right to read it.
        """
        if not state.get("stop") and await self._allowance.for_a_word(usage_of(state), drive):
            state = {**state, "stop": "limit_reached"}
        calls, stop = calls_of(state), state.get("stop", "")
        deltas = Deltas(drive.log)
        finish = _finish(calls, stop)
        material, speech = Material([], (), []), Speech()
        await deltas.line(*_before(calls, stop, drive))
        if state.get("rule") == "consent":
            await deltas.line(answers.consent(drive.run.language))
        elif stop != "refused":
            material = await self._material(state, drive, calls)
            deltas.rest_on(material.rests_on)
            speech = await self._speak(state, drive, deltas, material)
        if stop == "model_unavailable" and material.empty and finish is RunFinish.SUCCESS:
            finish = RunFinish.FAILED
        if material.unchecked:
            finish = RunFinish.FAILED if finish is RunFinish.SUCCESS else finish
            await deltas.line(answers.sources_away(drive.run.language))
        if finish is RunFinish.SUCCESS and deltas.empty:
            await deltas.line(answers.nothing_found(drive.run.language))
        if speech.endless and finish is RunFinish.SUCCESS:
            finish = RunFinish.LIMIT_REACHED
        citations = tuple(material.citations[number - 1] for number in speech.cited)
        memorable = finish is RunFinish.SUCCESS and route_of(state) is not Route.DIRECT
        drive.draft = Draft(
            finish,
            await deltas.close(),
            citations,
            asked=await self._intake.query(drive) if memorable else None,
            told=_remembered(calls, citations, drive),
            rests_on=material.rests_on,
        )
        return speech.tokens

    async def _material(self, state: RunState, drive: DriveContext, calls: Sequence[Call]) -> Material:
        try:
            await self._reading.restore(drive, calls, route_of(state))
            pieces, citations = await self._reading.current(drive, calls)
            records = [call for call in calls if is_record(call) and drive.bodies.get(call.call_id)]
            return Material(pieces, citations, await self._reading.still_readable(drive, records))
        except PlacetError:
            if drive.patient:
                raise
            return Material([], (), [], unchecked=True)

    async def _speak(self, state: RunState, drive: DriveContext, deltas: Deltas, material: Material) -> Speech:
        """Let the model (or, without one, the documents) answer."""
        filter_ = CitationFilter(len(material.pieces))
        # What a model said while it was shown evidence may quote what is readable no longer: then it speaks anew.
        if drive.said and not any(call.refs for call in calls_of(state)):
            await deltas.line(filter_.feed(drive.said) + filter_.close())
            metrics.CITATIONS_REMOVED.inc(filter_.removed)
            if route_of(state) is Route.BUSINESS_ACTION and not any(not call.reads for call in calls_of(state)):
                await deltas.line(answers.nothing_done(drive.run.language))
            return Speech()
        if material.empty and (state.get("stop") or route_of(state) is not Route.DIRECT):
            return Speech()
        if state.get("stop"):
            await deltas.line(await self._quoted(drive, material, filter_))
            return Speech(filter_.cited)
        await deltas.new_line()
        return await self._stream(drive, deltas, material, drive.remaining_s(usage_of(state)))

    async def _stream(self, drive: DriveContext, deltas: Deltas, material: Material, timeout_s: float) -> Speech:
        filter_, speech = CitationFilter(len(material.pieces)), Speech()
        prompt = ComposePrompt(drive.run.question, await self._intake.query(drive), material.fenced(drive))
        said = 0
        try:
            async with aclosing(self._model.compose(prompt, timeout_s=timeout_s)) as pieces:
                async for piece in pieces:
                    said += len(piece.text)
                    speech.tokens += piece.tokens
                    await deltas.add(filter_.feed(piece.text))
                    if said > _ANSWER_CHARS:
                        speech.endless = True
                        break
        except ModelUnavailableError:
            filter_ = CitationFilter(len(material.pieces))
            quoted = await self._quoted(drive, material, filter_)
            await deltas.restart(answers.model_away(drive.run.language), quoted)
        else:
            await deltas.add(filter_.close() + ("…" if speech.endless else ""))
        speech.cited = filter_.cited
        metrics.CITATIONS_REMOVED.inc(filter_.removed)
        await self._allowance.charge(drive, speech.tokens)
        return speech

    async def _quoted(self, drive: DriveContext, material: Material, filter_: CitationFilter) -> str:
        """What the material says by itself, when no model may be asked any more."""
        sources = fence.read_evidence(fence.evidence(material.pieces))
        told = [(call.tool, told_of_call(call, drive.bodies[call.call_id])) for call in material.records]
        if not sources and not told:
            return ""
        text = extractive_answer(drive.run.question, await self._intake.query(drive), sources, told)
        return filter_.feed(text) + filter_.close()


def _remembered(calls: Sequence[Call], citations: Sequence[Citation], drive: DriveContext) -> str:
    """What was done, and which documents answered: no word of theirs."""
    documents = dict.fromkeys(citation.document_id for citation in citations)
    return " ".join([*answers.statements(calls, drive.run.language), *documents])


def _finish(calls: Sequence[Call], stop: Stop) -> RunFinish:
    if stop == "refused":
        return RunFinish.REFUSED
    ended = run_finish(calls)
    if stop == "limit_reached" and ended is RunFinish.SUCCESS:
        return RunFinish.LIMIT_REACHED
    return ended


def _before(calls: Sequence[Call], stop: Stop, drive: DriveContext) -> list[str]:
    """The program's own sentences, first of all."""
    language = drive.run.language
    told = answers.statements(calls, language)
    if stop == "refused":
        return [answers.ending(RunFinish.REFUSED, language), *told]
    if stop == "limit_reached":
        return [answers.ending(RunFinish.LIMIT_REACHED, language), *told]
    if stop == "model_unavailable":
        return [*told, answers.model_away(language)]
    return told
