"""All children together: started side by side, listed truthfully, drained in order."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import structlog

from placet.cli.supervisor import errand
from placet.cli.supervisor.child import ChildFailedError
from placet.cli.supervisor.crew import LEAVING, Crew
from placet.cli.supervisor.environment import SERVICES, bare
from placet.cli.supervisor.journal import Journal
from placet.cli.supervisor.spec import ChildSpec
from placet.testkit.processes import alive
from placet.testkit.waiting import until

# Says when it came and when it left, in one shared file.
PROGRAM = """
import os, signal, sys, time
name, place = sys.argv[1], sys.argv[2]
def note(what):
    with open(place + "/order", "a") as file:
        file.write(f"{what} {name}\\n")
def leave(*_):
    time.sleep(0.05)
    note("left")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
note("came")
while True:
    time.sleep(60)
"""


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    yield Journal(tmp_path / "logs" / "supervisor.log")
    structlog.reset_defaults()


@pytest.fixture
async def crew(journal: Journal, tmp_path: Path) -> AsyncIterator[Crew]:
    crew = Crew(journal, tmp_path / "processes.json")
    yield crew
    await crew.kill()


def spec(name: str, place: Path, program: str = PROGRAM) -> ChildSpec:
    async def ready() -> bool:
        order = place / "order"
        return order.exists() and f"came {name}\n" in order.read_text()

    return ChildSpec(
        name=name,
        command=lambda: [sys.executable, "-c", program, name, str(place)],
        environment=bare(),
        log=place / "logs" / f"{name}.log",
        ready=ready,
    )


async def test_drain_stops_who_asks_before_who_answers_and_the_stores_last(crew: Crew, tmp_path: Path) -> None:
    names = ("nats", "postgres", "opa", *SERVICES)
    await crew.start([spec(name, tmp_path) for name in names], 20)
    pids = [crew.pid(name) for name in names]
    await crew.drain()
    left = [line.split()[1] for line in (tmp_path / "order").read_text().splitlines() if line.startswith("left")]
    assert {frozenset(left[:2]), frozenset(left[2:5])} == {
        frozenset({"gateway", "agent"}),
        frozenset({"tool-executor", "approval", "memory"}),
    }
    assert left[5:] == ["opa", "postgres", "nats"]
    assert not any(alive(pid) for pid in pids)
    assert not (tmp_path / "processes.json").exists()


def test_leaving_order_names_every_service() -> None:
    assert {name for stage in LEAVING for name in stage} == {*SERVICES, "nats", "postgres", "opa"}


async def test_processes_file_follows_a_restart(crew: Crew, tmp_path: Path) -> None:
    await crew.start([spec("gateway", tmp_path)], 20)
    first = crew.pid("gateway")
    assert json.loads((tmp_path / "processes.json").read_text()) == {"gateway": first}
    os.kill(first, signal.SIGKILL)
    await until(lambda: crew.pid("gateway") not in (0, first))
    assert json.loads((tmp_path / "processes.json").read_text()) == {"gateway": crew.pid("gateway")}


async def test_start_of_several_with_one_that_dies_names_that_one(crew: Crew, tmp_path: Path) -> None:
    specs = [spec("nats", tmp_path), spec("opa", tmp_path, "raise SystemExit('cannot bind')")]
    with pytest.raises(ExceptionGroup) as caught:
        await crew.start(specs, 20)
    failure = caught.value.exceptions[0]
    assert isinstance(failure, ChildFailedError)
    assert "opa died" in str(failure)
    assert "cannot bind" in str(failure)
    await crew.drain()
    assert crew.pid("nats") == 0


async def test_errand_that_ends_well_tells_its_lines(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", "import sys; print('three things done'); print('detail', file=sys.stderr)"]
    log = tmp_path / "errand.log"
    await errand.run("the errand", command, bare(), log=log, journal=journal, timeout_s=20)
    shown = capsys.readouterr()
    assert "three things done" in shown.err
    assert shown.out == ""
    assert log.read_text() == "detail\n"


async def test_errand_that_fails_raises_with_the_end_of_its_log(journal: Journal, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('no such database', file=sys.stderr); sys.exit(4)"]
    with pytest.raises(ChildFailedError, match=r"(?s)exit code 4.*no such database"):
        await errand.run("the errand", command, bare(), log=tmp_path / "e.log", journal=journal, timeout_s=20)


async def test_errand_that_takes_too_long_is_killed(journal: Journal, tmp_path: Path) -> None:
    place = tmp_path / "pid"
    program = f"import os, time; open({str(place)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with pytest.raises(ChildFailedError, match="took more than 1 s"):
        await errand.run(
            "the errand", [sys.executable, "-c", program], bare(), log=tmp_path / "e.log", journal=journal, timeout_s=1
        )
    assert not alive(int(place.read_text()))


def test_journal_tells_libraries_logs_to_the_file_only(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal.say("for people")
    structlog.get_logger("a library").info("which engine", engine="opa")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "for people\n"
    log = (tmp_path / "logs" / "supervisor.log").read_text()
    assert "for people" in log
    assert '"engine": "opa"' in log
