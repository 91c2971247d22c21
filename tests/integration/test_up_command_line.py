"""The commands of `placet` against a running house, and the demo as a user runs it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from placet.client import ReadyLine
from placet.testkit.placet_process import PlacetProcess
from placet.testkit.refunds import ask, finished, refunds
from placet.testkit.waiting import until


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    out: str
    err: str


async def placet(*arguments: str, **environment: str) -> Ended:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "placet.cli.main", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "COLUMNS": "200", **environment},
    )
    out, err = await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


async def test_proposal_listed_shown_and_decided_at_the_command_line(placet_up: PlacetProcess) -> None:
    here = ("--state-dir", str(placet_up.state))
    async with placet_up.client("alice") as alice:
        asked = await ask(alice, "A1007", "75.5")

        listed = await placet("proposals", "list", "--status", "pending", "--as", "dave", *here)
        assert listed.code == 0, listed.err
        assert asked.proposal_id in listed.out
        shown = await placet("proposals", "show", asked.proposal_id, "--as", "dave", "--json", *here)
        packet = json.loads(shown.out)
        assert packet["arguments"]["amount"] == 75.5

        decide = ("proposals", "decide", asked.proposal_id, "approve", *here)
        own = await placet(*decide, "--as", "alice", "--acknowledge", "A1007", "--retype", "75.5")
        assert own.code == 1
        assert "permission_denied" in own.err
        silent = await placet(*decide, "--as", "dave")
        assert silent.code == 2
        assert "challenge" in silent.err
        acknowledged = [part for resource in packet["challenge"]["resources"] for part in ("--acknowledge", resource)]
        wrong = await placet(*decide, "--as", "dave", *acknowledged, "--retype", "something else")
        assert wrong.code == 1
        assert "challenge_failed" in wrong.err
        assert await refunds(alice, "A1007") == []

        retype = str(packet["arguments"][packet["challenge"]["retype"]])
        right = await placet(*decide, "--as", "dave", *acknowledged, "--retype", retype)
        assert right.code == 0, right.err
        assert (await finished(alice, asked))["finish_reason"] == "success"
        assert await refunds(alice, "A1007") == [75.5]

    tail = await placet("audit", "tail", "--run-id", asked.run_id, "--json", *here)
    assert tail.code == 0, tail.err
    records = [json.loads(line) for line in tail.out.splitlines()]
    assert {"tool-decided", "proposal-decided", "effect-finished"} <= {record["type"] for record in records}
    for_people = await placet("audit", "tail", "--run-id", asked.run_id, *here)
    assert len(for_people.out.splitlines()) == len(records)


@pytest.mark.spec("L2")
async def test_audit_of_a_running_house_is_sealed_and_proven(placet_up: PlacetProcess) -> None:
    found: list[dict[str, object]] = []

    async def sealed() -> bool:
        ended = await placet("audit", "verify", "--json", "--state-dir", str(placet_up.state))
        assert ended.code == 0, ended.out + ended.err
        found[:] = [json.loads(line) for line in ended.out.splitlines()]
        return bool(found[0]["events"])

    async with placet_up.client("alice") as alice:
        await alice.tools.call("query_business_data", {"entity": "orders", "order_id": "A1008"})
    await until(sealed, timeout_s=60, what="the record has a seal")
    assert [report["stream"] for report in found] == ["AUDIT", "APPROVALS", "EFFECTS"]
    assert all(report["holds"] for report in found)


async def test_audit_is_refused_to_who_is_no_auditor(placet_up: PlacetProcess) -> None:
    ended = await placet("audit", "tail", "--as", "alice", "--state-dir", str(placet_up.state))
    assert ended.code == 1
    assert ended.out == ""


async def test_command_with_a_url_and_a_token_needs_no_state_directory(placet_up: PlacetProcess) -> None:
    ended = await placet(
        *("proposals", "list", "--json"),
        PLACET_URL=placet_up.ready.gateway,
        PLACET_TOKEN=placet_up.ready.tokens["erin"],
        PLACET_STATE_DIR="/nonexistent",
    )
    assert ended.code == 0, ended.err


async def test_doctor_finds_the_running_gateway_ready(placet_up: PlacetProcess) -> None:
    ended = await placet("doctor", "--url", placet_up.ready.gateway, "--state-dir", str(placet_up.state))
    assert ended.code == 0, ended.out
    assert f"✓ gateway: {placet_up.ready.gateway} is ready" in ended.out


async def test_provisioning_again_changes_nothing(placet_up: PlacetProcess) -> None:
    supervisor_log = (placet_up.state / "logs" / "supervisor.log").read_text()
    assert "14 documents" in supervisor_log
    async with placet_up.client("directory_admin") as administrator:
        before = await administrator.directory.get("alice")
    environment = _provisioning_environment(placet_up)
    ended = await placet("provision", "--seed-demo", **environment)
    assert ended.code == 0, ended.err
    assert "demo world: nothing new" in ended.out
    async with placet_up.client("directory_admin") as administrator:
        assert await administrator.directory.get("alice") == before


@pytest.mark.timeout(300)
@pytest.mark.spec("A4", "A5", "A6", "A11", "I3", "K2", "K3", "L1", "U5")
async def test_demo_of_a_new_user_holds_in_every_step() -> None:
    ended = await placet("demo")
    assert ended.code == 0, f"{ended.out}\n{ended.err[-3000:]}"
    for step in range(1, 7):
        assert f"Step {step}:" in ended.out
    assert "✗" not in ended.out


@pytest.mark.timeout(300)
async def test_demo_on_a_world_of_its_own_engine_holds_once_and_then_says_what_it_cannot_show() -> None:
    state = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="placet-demo-twice-"))
    house = await PlacetProcess.start(state, engine="embedded")
    try:
        assert house.ready.policy_engine == "embedded"
        assert "opa" not in house.pids()
        file = state / "ready.txt"
        file.write_text(_line(house.ready))
        target = ("demo", "--url", house.ready.gateway, "--tokens-file", str(file))
        first = await placet(*target)
        assert first.code == 0, first.out
        second = await placet(*target)
        assert second.code == 1
        assert "A1001 has been refunded before" in second.out
        assert "doc-remote-work is no draft any more" in second.out
    finally:
        assert await house.stop() == 0
        shutil.rmtree(state, ignore_errors=True)


def _line(ready: ReadyLine) -> str:
    return f"starting …\n{ready.render()}\n"


def _provisioning_environment(house: PlacetProcess) -> dict[str, str]:
    from placet.storage import EmbeddedPostgres

    passwords = json.loads((house.state / "keys" / "database.json").read_text())
    return {f"PLACET_DATABASE_{role.upper()}_PASSWORD": password for role, password in passwords.items()} | {
        "PLACET_NATS_URL": house.ready.nats,
        "PLACET_NATS_SEED_FILE": str(house.state / "nats" / "provision.seed"),
        "PLACET_DATABASE_ADMIN_URL": EmbeddedPostgres(house.state / "postgres").admin_url,
    }
