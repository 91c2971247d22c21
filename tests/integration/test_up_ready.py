"""`placet up`: the READY line, who runs, what each process may know, and that nobody starts it twice."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import psutil
import pytest

from placet.client import NotAllowedError, NotFoundError, UnauthenticatedError
from placet.contracts.directory import PersonChange
from placet.testkit.placet_process import PlacetProcess
from placet.testkit.processes import alive

SERVICES = {"gateway", "agent", "tool-executor", "approval", "memory"}
PEOPLE = {"alice", "bob", "carol", "dave", "erin", "mike", "auditor", "directory_admin", "globex_alice"}


async def test_ready_line_names_addresses_tokens_processes_and_engine(placet_up: PlacetProcess) -> None:
    ready = placet_up.ready
    assert ready.gateway.startswith("http://127.0.0.1:")
    assert ready.nats.startswith("nats://127.0.0.1:")
    assert set(ready.tokens) == PEOPLE
    assert set(ready.pids) == SERVICES | {"nats"}
    assert ready.policy_engine in ("opa", "embedded")


async def test_ready_means_that_everything_answers(placet_up: PlacetProcess) -> None:
    async with placet_up.client("alice") as alice:
        checks = await alice.readiness()
        assert checks
        assert all(checks.values())
        assert await alice.tools.list()


@pytest.mark.spec("I1")
async def test_every_token_is_the_person_it_names(placet_up: PlacetProcess) -> None:
    async with placet_up.client("directory_admin") as administrator:
        assert (await administrator.directory.get("alice")).name == "Alice"
        assert (await administrator.directory.get("mike")).active is False
    async with placet_up.client("alice") as alice:
        with pytest.raises((NotAllowedError, NotFoundError)):
            await alice.directory.get("bob")
    async with placet_up.client("globex_alice") as other:
        with pytest.raises(NotFoundError):
            await other.documents.get("doc-travel-v1")


async def test_forged_token_is_refused(placet_up: PlacetProcess) -> None:
    from placet.client import PlacetClient

    header, payload, signature = placet_up.ready.tokens["alice"].split(".")
    async with PlacetClient(placet_up.ready.gateway, f"{header}.{payload}.{signature[::-1]}") as nobody:
        with pytest.raises(UnauthenticatedError):
            await nobody.tools.list()


@pytest.mark.spec("C2", "C3", "C5", "C6", "C7")
async def test_process_ids_are_those_of_the_programs_themselves(placet_up: PlacetProcess) -> None:
    for name in SERVICES:
        command = psutil.Process(placet_up.pids()[name]).cmdline()
        assert command[1:] == ["-m", f"services.{name.replace('-', '_')}"], name
    assert Path(psutil.Process(placet_up.pids()["nats"]).exe()).name == "nats-server"
    assert psutil.Process(placet_up.pids()["postgres"]).name() == "postgres"


@pytest.mark.spec("I2")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
async def test_no_process_holds_a_secret_of_another(placet_up: PlacetProcess) -> None:
    allowed = {
        "gateway": {"gateway.seed", "grant.private.jwk"},
        "agent": {"agent.seed"},
        "tool-executor": {"tool-executor.seed", "effect.private.jwk"},
        "approval": {"approval.seed", "approval.private.jwk", "audit.private.jwk"},
        "memory": {"memory.seed"},
        "nats": set(),
        "postgres": set(),
        "opa": set(),
    }
    passwords = set()
    for name, pid in placet_up.pids().items():
        values = psutil.Process(pid).environ().values()
        files = {Path(value).name for value in values if value.endswith((".seed", ".private.jwk"))}
        assert files == allowed[name], name
        urls = [value for value in values if value.startswith("postgresql://")]
        assert len(urls) == {"agent": 1, "tool-executor": 2, "approval": 1}.get(name, 0), name
        passwords |= set(urls)
    assert len(passwords) == 4  # the executor has a second role, for queries that a model wrote


async def test_second_up_on_the_same_directory_is_refused_and_changes_nothing(placet_up: PlacetProcess) -> None:
    before = placet_up.pids()
    second = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "placet.cli.main", "up", "--state-dir", str(placet_up.state)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(second.communicate(), 30)
    assert second.returncode == 2
    assert out == b""
    assert f"process {placet_up.pid}" in err.decode()
    assert placet_up.pids() == before
    assert all(alive(pid) for pid in before.values())


async def test_everything_listens_on_this_machine_only(placet_up: PlacetProcess) -> None:
    listening = {
        (name, connection.laddr.ip)
        for name, pid in placet_up.pids().items()
        for connection in psutil.Process(pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {name for name, _ in listening} >= {*SERVICES, "nats"}
    assert {address for _, address in listening} == {"127.0.0.1"}, listening


@pytest.mark.spec("I1", "R4", "U4")
async def test_answer_read_yesterday_is_gone_with_the_right_to_its_source_and_the_run_with_the_person(
    placet_up: PlacetProcess,
) -> None:
    async with placet_up.client("bob") as bob, placet_up.client("directory_admin") as directory:
        asked = await bob.runs.chat("What does the R&D handbook say about code review?")
        assert [one.document_id for one in asked.citations] == ["doc-rnd-handbook"]
        assert asked.answer
        before = await directory.directory.get("bob")
        rights = PersonChange(active=True, roles=before.roles, teams=before.teams, clearance=before.clearance)
        try:
            await directory.directory.put("bob", rights.model_copy(update={"roles": ("employee",), "teams": ()}))
            shown = await bob.runs.get(asked.run_id)
            assert shown.answer != asked.answer
            assert "may not read now" in str(shown.answer)
            assert shown.citations == ()
            events = [event async for event in bob.runs.follow(asked.run_id)]
            assert [event.seq for event in events] == list(range(1, len(events) + 1))
            assert not any(asked.answer[:20] in str(event.data) for event in events)
            await directory.directory.put("bob", rights.model_copy(update={"active": False}))
            with pytest.raises(NotFoundError):
                await bob.runs.get(asked.run_id)
        finally:
            await directory.directory.put("bob", rights)
        assert (await bob.runs.get(asked.run_id)).answer == asked.answer
