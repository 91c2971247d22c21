"""`placet up`: the READY line, who runs, what each process may know, and that nobody starts it twice."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import nats
import psutil
import pytest
from nats.aio.msg import Msg

from placet.client import NotFoundError, UnauthenticatedError
from placet.contracts.directory import PersonChange
from placet.contracts.proposals import ProposalStatus
from placet.testkit.placet_process import PlacetProcess
from placet.testkit.processes import alive
from placet.testkit.refunds import approve, ask, finished
from placet.testkit.waiting import until

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
        with pytest.raises(NotFoundError):
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


@pytest.mark.spec("L1", "A1", "A2")
async def test_auditor_with_any_client_follows_a_refund_as_the_guide_says_and_can_send_nothing_of_it(
    placet_up: PlacetProcess,
) -> None:
    """The bus's own client, the seed file and one subscription: nothing of ours on the auditor's side."""
    seen: dict[str, dict[str, Any]] = {}
    refused: list[str] = []

    async def on_event(message: Msg) -> None:
        seen[message.subject] = json.loads(message.data)

    async def on_error(error: Exception) -> None:
        refused.append(str(error))

    seed = str(placet_up.state / "nats" / "auditor.seed")
    auditor = await nats.connect(placet_up.ready.nats, nkeys_seed=seed, error_cb=on_error)
    try:
        await auditor.subscribe("placet.*.*.evt.>", cb=on_event)
        await auditor.flush()
        async with placet_up.client("alice") as alice, placet_up.client("dave") as dave:
            asked = await ask(alice, "A1008", "4.25")
            forged = f"placet.acme.approval.evt.approved.v1.{asked.proposal_id}"
            await auditor.publish(forged, b"{}")
            await auditor.publish(f"stored.{forged}", b"{}")
            await auditor.flush()
            assert (await dave.proposals.get(asked.proposal_id)).status is ProposalStatus.PENDING
            await approve(dave, asked.proposal_id)
            assert (await finished(alice, asked))["finish_reason"] == "success"
        entity = f"v1.{asked.proposal_id}"
        story = [f"placet.acme.approval.evt.{name}.{entity}" for name in ("waiting-for-human", "approved", "completed")]
        await until(lambda: set(story) <= set(seen), what="the auditor has seen the refund")
    finally:
        await auditor.close()
    assert len([one for one in refused if forged in one]) == 2, refused
    assert [subject for subject in seen if subject in story] == story
    for event in (seen[subject] for subject in story):
        assert (event["specversion"], event["tenant"], event["subject"]) == ("1.0", "acme", asked.proposal_id)
    assert seen[story[-1]]["data"]["finish_reason"] == "success"


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
