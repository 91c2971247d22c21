"""The answer: the program speaks of effects, refusals and limits; the model of evidence and records, with numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placet.contracts.execution import Citation
from placet.contracts.runs import RunFinish
from placet.contracts.tools import Route
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.deltas import Deltas
from services.agent.adapters.graph.nodes.intake import Intake
from services.agent.adapters.graph.reading import Reading, is_record
from services.agent.adapters.graph.state import RunState, Stop, calls_of, route_of, usage_of
from services.agent.domain import answers, fence
from services.agent.domain.calls import Call
from services.agent.domain.citations import CitationFilter
from services.agent.domain.evidence import Evidence
from services.agent.domain.limits import reached
from services.agent.domain.offline.speaking import answer as extractive_answer
from services.agent.domain.outcomes import run_finish
from services.agent.domain.told import told_of_call
from services.agent.errors import ModelUnavailableError
from services.agent.ports import ComposePrompt, Draft, Model


@dataclass(frozen=True, slots=True)
class Material:
    """What an answer may rest on, as its owner may see it at this moment."""

    pieces: list[Evidence]
    citations: tuple[Citation, ...]
    records: list[Call]

    @property
    def empty(self) -> bool:
        return not self.pieces and not self.records

    def fenced(self, drive: DriveContext) -> str:
        told = [fence.data(call.tool, told_of_call(call, drive.bodies[call.call_id])) for call in self.records]
        return "\n".join([fence.evidence(self.pieces), *told] if self.pieces else told)


class Composition:
    def __init__(self, model: Model, intake: Intake, reading: Reading) -> None:
        self._model = model
        self._intake = intake
        self._reading = reading

    async def compose(self, state: RunState, drive: DriveContext) -> RunState:
        tokens = await self.draft(state, drive)
        return {"usage": {"tokens": tokens}}

    async def draft(self, state: RunState, drive: DriveContext) -> int:
        """Put the draft into the context, streaming it on the way; returns the tokens used.

        What is streamed and what the draft holds are the same text. It is never part of the state: an answer quotes
        evidence, and the state outlives the right to read it.
        """
        calls, stop = calls_of(state), state.get("stop", "")
        deltas = Deltas(drive.log)
        finish = _finish(calls, stop)
        material, cited, tokens = Material([], (), []), list[int](), 0
        await deltas.line(*_before(calls, stop, drive))
        if state.get("rule") == "consent":
            await deltas.line(answers.consent(drive.run.language))
        elif stop != "refused":
            material = await self._material(state, drive, calls)
            cited, tokens = await self._speak(state, drive, deltas, material)
        if stop == "model_unavailable" and material.empty and finish is RunFinish.SUCCESS:
            finish = RunFinish.FAILED
        if finish is RunFinish.SUCCESS and deltas.empty:
            await deltas.line(answers.nothing_found(drive.run.language))
        drive.draft = Draft(
            finish,
            await deltas.close(),
            tuple(material.citations[number - 1] for number in cited),
            memorable=finish is RunFinish.SUCCESS and route_of(state) is not Route.DIRECT,
        )
        return tokens

    async def _material(self, state: RunState, drive: DriveContext, calls: Sequence[Call]) -> Material:
        await self._reading.restore(drive, calls, route_of(state))
        pieces, citations = await self._reading.current(drive, calls)
        records = [call for call in calls if is_record(call) and drive.bodies.get(call.call_id)]
        return Material(pieces, citations, records)

    async def _speak(
        self, state: RunState, drive: DriveContext, deltas: Deltas, material: Material
    ) -> tuple[list[int], int]:
        """Let the model (or, without one, the documents) answer; returns the numbers cited and the tokens used."""
        language, filter_ = drive.run.language, CitationFilter(len(material.pieces))
        if drive.said and not material.pieces:
            await deltas.line(filter_.feed(drive.said) + filter_.close())
            if route_of(state) is Route.BUSINESS_ACTION and not any(not call.reads for call in calls_of(state)):
                await deltas.line(answers.nothing_done(language))
            return [], 0
        if material.empty:
            if route_of(state) is not Route.DIRECT:
                return [], 0
        elif state.get("stop") or reached(usage_of(state), drive.limits):
            await deltas.line(await self._quoted(drive, material, filter_))
            return filter_.cited, 0
        await deltas.new_line()
        tokens = 0
        prompt = ComposePrompt(drive.run.question, await self._intake.query(drive), material.fenced(drive))
        try:
            async for piece in self._model.compose(prompt, timeout_s=drive.remaining_s(usage_of(state))):
                tokens += piece.tokens
                await deltas.add(filter_.feed(piece.text))
        except ModelUnavailableError:
            filter_ = CitationFilter(len(material.pieces))
            await deltas.restart(answers.model_away(language), await self._quoted(drive, material, filter_))
        else:
            await deltas.add(filter_.close())
        return filter_.cited, tokens

    async def _quoted(self, drive: DriveContext, material: Material, filter_: CitationFilter) -> str:
        """What the material says by itself, when no model may be asked any more."""
        sources = fence.read_evidence(fence.evidence(material.pieces))
        told = [(call.tool, told_of_call(call, drive.bodies[call.call_id])) for call in material.records]
        if not sources and not told:
            return ""
        text = extractive_answer(drive.run.question, await self._intake.query(drive), sources, told)
        return filter_.feed(text) + filter_.close()


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
