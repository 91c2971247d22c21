"""Fifty deciders in five processes before two approval services, one of them a process: one wins, twenty times over.

T12 is read as: concurrent or late decisions are refused and change nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from placet.contracts.proposals import FinishReason
from placet.observability.context import new_id
from tests.benchmarks.processes import policy_engine, service
from tests.integration.approval_steps import asked, ended, names
from tests.integration.governance_rig import ROOT, GovernanceRig

ROUNDS = 20
PROCESSES = 5
EACH = 10
DECISIONS = ("approve", "reject", "respond", "approve")
ENDINGS = {"approve": FinishReason.SUCCESS, "reject": FinishReason.REJECTED, "respond": FinishReason.RESPONDED}


@asynccontextmanager
async def deciders(rig: GovernanceRig) -> AsyncIterator[list[Process]]:
    arguments = ("-m", "tests.integration.many_deciders", rig.nats.url, str(rig.nats.seed_file("gateway")))
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT)
        for _ in range(PROCESSES)
    ]
    try:
        for process in processes:
            assert await _line(process) == "ready"
        yield processes
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def _line(process: Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        return (await process.stdout.readline()).decode().strip()


async def _round(process: Process, commands: list[dict[str, Any]]) -> list[str]:
    assert process.stdin is not None
    process.stdin.write(json.dumps(commands).encode() + b"\n")
    await process.stdin.drain()
    outcomes: list[str] = json.loads(await _line(process))
    return outcomes


@pytest.mark.spec("A2", "T12", "W9")
async def test_fifty_deciders_in_five_processes_give_one_winner_and_one_effect_each_round(
    apart: GovernanceRig,
) -> None:
    grants = [apart.grant(who) for who in ("dave", "erin")]
    async with (
        policy_engine(apart, "embedded") as engine,
        service(apart, "services.approval", engine),
        deciders(apart) as processes,
    ):
        for _ in range(ROUNDS):
            mode = new_id("ok")
            proposal_id = await asked(apart, "alice", "odd_gated_write", {"mode": mode})
            view = await apart.proposal("alice", proposal_id)
            commands = [
                {
                    "grant": grants[number % 2],
                    "proposal_id": proposal_id,
                    "decision": DECISIONS[number % len(DECISIONS)],
                    "digest": view.digest,
                    "message": "call them",
                }
                for number in range(EACH)
            ]
            before = await apart.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
            assert before == []
            outcomes = [
                outcome
                for answers in await asyncio.gather(*(_round(process, commands) for process in processes))
                for outcome in answers
            ]
            [winner] = [outcome for outcome in outcomes if outcome.startswith("won by ")]
            assert set(outcomes) - {winner} == {"already_decided"}
            await _one_end(apart, proposal_id, winner.removeprefix("won by "))


async def _one_end(rig: GovernanceRig, proposal_id: str, decision: str) -> None:
    view = await ended(rig, proposal_id)
    assert view.finish_reason is ENDINGS[decision]
    history = await names(rig, proposal_id)
    assert [name for name in history if name in ("approved", "rejected", "responded")] == [
        {"approve": "approved", "reject": "rejected", "respond": "responded"}[decision]
    ]
    assert history.count("completed") == 1
    effects = await rig.effects_reader().entity("acme", "tool-executor", view.idempotency_key)
    assert [event.name for event in effects] == (["claimed", "executed", "verified"] if decision == "approve" else [])
