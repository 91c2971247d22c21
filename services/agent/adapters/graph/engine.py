"""Driving the graph of one run: from its beginning, from where a dead worker left it, or from a person's decision."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import psycopg
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphDrained
from langgraph.runtime import RunControl
from langgraph.types import Command, Interrupt, StateSnapshot
from psycopg_pool import PoolTimeout

from placet.contracts.errors import ErrorCode, PlacetError
from placet.contracts.events import Completed
from placet.contracts.runs import RunFinish
from services.agent.adapters.checkpoints.saver import Checkpoints
from services.agent.adapters.graph.build import RECURSION_LIMIT, Graph, graph_version
from services.agent.adapters.graph.context import DriveContext
from services.agent.adapters.graph.nodes.decide import answer_of
from services.agent.adapters.graph.reading import influence_of
from services.agent.adapters.graph.reconsider import Reconsideration
from services.agent.adapters.graph.state import RunState, calls_of, route_of, waiting
from services.agent.domain import answers
from services.agent.domain.calls import CallStatus
from services.agent.domain.limits import Limits
from services.agent.domain.outcomes import body_of, closed, decision_of, run_finish
from services.agent.domain.patience import NOT_WAITED, Waited
from services.agent.domain.resume import GRAPH, OWNER_LEFT, PROMPT, Parked, Verdict
from services.agent.domain.run import Run
from services.agent.errors import AbandonedError, DrainedError, NotParkedError
from services.agent.ports import Draft, Lease, RunLog


class GraphEngine:
    """Implements `Engine`."""

    def __init__(
        self, graph: Graph, checkpoints: Checkpoints, limits: Limits, reconsideration: Reconsideration, prompts: str
    ) -> None:
        """`prompts` is the version of the model and of what it is told."""
        self._graph = graph
        self._checkpoints = checkpoints
        self._limits = limits
        self._reconsideration = reconsideration
        self._versions = {GRAPH: graph_version(graph), PROMPT: prompts}

    def prepare(
        self, run: Run, log: RunLog, lease: Lease, completed: Completed | None, waited: Waited = NOT_WAITED
    ) -> GraphDrive:
        # A copy of the compiled graph with this drive's saver costs a twentieth of a millisecond.
        graph = self._graph.copy(update={"checkpointer": self._checkpoints.saver(lease.check)})
        context = DriveContext(run, log, lease, self._limits, versions=dict(self._versions), waited=waited)
        return GraphDrive(graph, context, completed, self._checkpoints, self._reconsideration)

    async def forget(self, tenant: str, run_id: str) -> None:
        async with _database(self._checkpoints):
            await self._checkpoints.saver().adelete_thread(_thread(tenant, run_id))


class GraphDrive:
    """Implements `Drive`."""

    def __init__(
        self,
        graph: Graph,
        context: DriveContext,
        completed: Completed | None,
        checkpoints: Checkpoints,
        reconsideration: Reconsideration,
    ) -> None:
        self._graph = graph
        self._reconsideration = reconsideration
        self._state = RunState()
        self._checkpoints = checkpoints
        self._context = context
        self._completed = completed
        self._control = RunControl()
        run = context.run
        self._config: RunnableConfig = {
            "configurable": {"thread_id": _thread(run.tenant, run.run_id)},
            "recursion_limit": RECURSION_LIMIT,
        }

    async def run(self) -> bool:
        async with _database(self._checkpoints):
            await self._go_on()
        return self._context.log.record.completed

    async def _go_on(self) -> None:
        snapshot = await self._graph.aget_state(self._config)
        self._state = cast(RunState, snapshot.values)
        self._context.usage = dict(self._state.get("usage") or {})
        begun = snapshot.metadata is not None
        if not begun and self._completed is not None:
            raise NotParkedError(self._context.run.run_id)
        if not begun:
            await self._invoke({"usage": {}})
        elif self._completed is not None:
            await self._resume(snapshot, self._completed)
        elif not snapshot.interrupts:
            # Not asked of `next`: it is empty, too, where a worker died between a step's last write and its checkpoint.
            await self._reconsidered()
            await self._invoke(None)

    async def _reconsidered(self) -> None:
        """Raises `AbandonedError` when this run is not to be taken up again."""
        context = self._context
        context.stored_versions = dict(self._state.get("versions") or {})
        finding = await self._reconsideration.of(self._state, context)
        if finding.verdict is Verdict.ABANDON:
            raise AbandonedError(finding.reasons)
        if finding.verdict is Verdict.REPLAN:
            planned = [call for call in calls_of(self._state) if call.status is CallStatus.PLANNED]
            # A read is authorized anew and harmless anyway.
            context.stale = frozenset(call.call_id for call in planned if not call.reads)

    @property
    def patient(self) -> bool:
        return self._context.patient

    @property
    def waited(self) -> Waited:
        return self._context.waited

    def waits(self, pause_s: float) -> Waited:
        context = self._context
        return context.waited.more(context.lost_s + pause_s, frozenset(context.unreached))

    def drain(self) -> None:
        self._control.request_drain("stopping")

    async def done_so_far(self) -> list[str]:
        async with _database(self._checkpoints):
            snapshot = await self._graph.aget_state(self._config)
        done = [
            call
            for call in calls_of(cast(RunState, snapshot.values))
            if call.status is CallStatus.OK and not call.reads
        ]
        return answers.statements(done, self._context.run.language)

    def parked(self) -> Parked:
        calls = calls_of(self._state)
        rests = {
            str(call.proposal_id): influence_of(before for before in calls if before.step < call.step).lineage
            for call in waiting(self._state)
        }
        run = self._context.run
        return Parked(run.run_id, run.owner, route_of(self._state).value, rests)

    async def last_words(self, reasons: tuple[str, ...]) -> Draft:
        language = self._context.run.language
        if OWNER_LEFT in reasons:
            return Draft(RunFinish.REFUSED, answers.ending(RunFinish.REFUSED, language))
        calls = closed(calls_of(self._state), self._completed)
        told = [*answers.statements(calls, language), answers.given_up(language)]
        settled = [call for call in calls if not call.reads]
        return Draft(run_finish(settled) if settled else RunFinish.FAILED, "\n".join(told))

    async def abandon(self, timeout_s: float) -> list[str]:
        tasks = list(self._context.inflight.values())
        if not tasks:
            return []
        done, late = await asyncio.wait(tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        return [proposal for task in done if (proposal := _proposal_of(task))]

    async def _resume(self, snapshot: StateSnapshot, completed: Completed) -> None:
        """Answer the one question that this decision belongs to, by its id: never by position."""
        question = next((i for i in snapshot.interrupts if i.value["proposal_id"] == completed.proposal_id), None)
        if question is not None:
            await self._reconsidered()
            await self._invoke(Command(resume={question.id: self._answer(question, completed)}))
        elif completed.proposal_id in self._context.log.record.resumed:
            # Answered by a worker that died before the run went on.
            await self._reconsidered()
            await self._invoke(None)
        else:
            raise NotParkedError(completed.proposal_id)

    def _answer(self, question: Interrupt, completed: Completed) -> Any:
        reads = bool(question.value["reads"])
        if reads:
            self._context.bodies[question.value["call_id"]] = body_of(completed)
        return answer_of(decision_of(completed, reads=reads))

    async def _invoke(self, given: Any) -> None:
        try:
            values = await self._graph.ainvoke(
                given, self._config, context=self._context, durability="sync", control=self._control
            )
        except GraphDrained as drained:
            raise DrainedError(self._context.run.run_id) from drained
        self._state = cast(RunState, values)


def _proposal_of(task: asyncio.Task[Any]) -> str | None:
    if task.cancelled() or isinstance(task.exception(), PlacetError):
        return None
    proposal = task.result().proposal
    return str(proposal.proposal_id) if proposal else None


def _thread(tenant: str, run_id: str) -> str:
    return f"{tenant}.{run_id}"


@asynccontextmanager
async def _database(checkpoints: Checkpoints) -> AsyncIterator[None]:
    """Turns a failed database into the project's error, and rids the pool of dead connections for the next try."""
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
        await checkpoints.heal()
        raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The checkpoints are not available.") from error
