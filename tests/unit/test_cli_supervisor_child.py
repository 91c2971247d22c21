"""A child process: started, healed after any death, stopped by its id, never orphaned. With real small processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from placet.cli.supervisor.child import Child, ChildFailedError
from placet.cli.supervisor.environment import bare
from placet.cli.supervisor.spec import Backoff, ChildSpec
from placet.testkit.processes import alive
from placet.testkit.waiting import until

Start = Callable[..., Child]

# Writes its process id to a file once it is up, and leaves on SIGTERM with a note. SIGINT ends it also where the tests
# run in the background of a shell, which would have it ignored.
POLITE = """
import os, signal, sys, time
from pathlib import Path
place = Path(sys.argv[1])
def leave(*_):
    (place / "left").write_text("by itself")
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, signal.SIG_DFL)
(place / "up").write_text(str(os.getpid()))
print("hello from", os.getpid(), flush=True)
while True:
    time.sleep(60)
"""
DEAF = """
import os, signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, signal.SIG_IGN)
(Path(sys.argv[1]) / "up").write_text(str(os.getpid()))
while True:
    time.sleep(60)
"""
SICK = "import sys; print('something is badly wrong', file=sys.stderr); sys.exit(3)"


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Makes children of a program; whatever still runs at the end is killed."""
    children: list[Child] = []

    def make(program: str, *, grace_s: float = 5.0, report: Callable[[str], None] = lambda _: None) -> Child:
        async def ready() -> bool:
            up = tmp_path / "up"
            return up.exists() and up.read_text() == str(child.pid)

        spec = ChildSpec(
            name="small",
            command=lambda: [sys.executable, "-c", program, str(tmp_path)],
            environment=bare() | {"OWN_SECRET": "mine"},
            log=tmp_path / "logs" / "small.log",
            ready=ready,
            grace_s=grace_s,
        )
        child = Child(spec, report)
        children.append(child)
        return child

    yield make
    for child in children:
        await child.stop(at_once=True)


async def test_child_started_becomes_ready_and_writes_to_its_log(start: Start, tmp_path: Path) -> None:
    child = start(POLITE)
    await child.start()
    await child.wait_ready(10)
    assert child.pid is not None
    assert f"hello from {child.pid}" in (tmp_path / "logs" / "small.log").read_text()


@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
async def test_child_that_dies_of_any_signal_is_started_again(start: Start, death: signal.Signals) -> None:
    said: list[str] = []
    child = start(POLITE, report=said.append)
    await child.start()
    await child.wait_ready(10)
    first = child.pid
    assert first is not None
    os.kill(first, death)
    await until(lambda: child.pid not in (None, first))
    await child.wait_ready(10)
    assert child.deaths == 1
    assert len(said) == 1
    assert "small ended" in said[0]


async def test_child_that_dies_again_is_started_after_longer_pauses(start: Start) -> None:
    pauses: list[float] = []

    def note(text: str) -> None:
        pauses.append(float(re.findall(r"again in ([\d.]+) s", text)[0]))

    child = start(SICK, report=note)
    await child.start()
    await until(lambda: len(pauses) >= 4)
    assert pauses[:4] == [0.2, 0.4, 0.8, 1.6]


async def test_child_that_never_becomes_ready_fails_with_the_end_of_its_log(start: Start) -> None:
    child = start(SICK)
    await child.start()
    with pytest.raises(ChildFailedError, match="small died 3 times") as caught:
        await child.wait_ready(30)
    assert "something is badly wrong" in str(caught.value)


async def test_child_that_is_slow_fails_when_the_time_is_over(start: Start) -> None:
    child = start("import time; time.sleep(60)")
    await child.start()
    with pytest.raises(ChildFailedError, match=r"not ready after 0\.3 s"):
        await child.wait_ready(0.3)


async def test_stop_lets_the_child_leave_by_itself_and_does_not_start_it_again(start: Start, tmp_path: Path) -> None:
    child = start(POLITE)
    await child.start()
    await child.wait_ready(10)
    pid = child.pid
    assert pid is not None
    await child.stop()
    assert (tmp_path / "left").read_text() == "by itself"
    assert child.pid is None
    assert not alive(pid)
    await asyncio.sleep(0.4)
    assert child.pid is None


async def test_stop_of_a_child_that_does_not_listen_kills_it_after_the_grace(start: Start) -> None:
    said: list[str] = []
    child = start(DEAF, grace_s=0.3, report=said.append)
    await child.start()
    await child.wait_ready(10)
    pid = child.pid
    assert pid is not None
    began = time.monotonic()
    await child.stop()
    assert 0.3 <= time.monotonic() - began < 3
    assert not alive(pid)
    assert said == ["small did not stop within 0.3 s: killed"]


async def test_second_stop_at_once_ends_the_grace_of_the_first(start: Start) -> None:
    child = start(DEAF, grace_s=60)
    await child.start()
    await child.wait_ready(10)
    stopping = asyncio.create_task(child.stop())
    await asyncio.sleep(0.1)
    await child.stop(at_once=True)
    async with asyncio.timeout(30):
        await stopping
    assert child.pid is None


async def test_stop_between_a_death_and_the_next_start_leaves_nothing_running(start: Start) -> None:
    child = start(SICK)
    await child.start()
    await until(lambda: child.deaths >= 2)
    await child.stop()
    deaths = child.deaths
    await asyncio.sleep(1.0)
    assert (child.pid, child.deaths) == (None, deaths)


async def test_child_sees_its_own_environment_and_nothing_else_of_ours(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOMEBODYS_PASSWORD", "not for children")
    show = "import os, sys; open(sys.argv[1] + '/seen', 'w').write(repr(dict(os.environ)))"
    child = start(show)
    await child.start()
    await until(lambda: (tmp_path / "seen").exists() and (tmp_path / "seen").read_text().endswith("}"))
    seen = (tmp_path / "seen").read_text()
    assert "OWN_SECRET" in seen
    assert "SOMEBODYS_PASSWORD" not in seen


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ties a child's life to its parent's")
async def test_supervisor_killed_by_force_leaves_no_orphans(tmp_path: Path) -> None:
    supervisor = textwrap.dedent(
        """
        import asyncio, sys
        from pathlib import Path
        from placet.cli.supervisor.child import Child
        from placet.cli.supervisor.environment import bare
        from placet.cli.supervisor.spec import ChildSpec

        async def main():
            async def ready():
                return True
            spec = ChildSpec("small", lambda: [sys.executable, "-c", sys.argv[2], sys.argv[1]], bare(),
                             Path(sys.argv[1]) / "small.log", ready)
            child = Child(spec, print)
            await child.start()
            await asyncio.sleep(60)

        asyncio.run(main())
        """
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", supervisor, str(tmp_path), DEAF)
    up = tmp_path / "up"
    try:
        await until(lambda: up.exists() and up.read_text() != "")
        orphan = int(up.read_text())
        assert alive(orphan)
    finally:
        process.kill()
        await process.wait()
    await until(lambda: not alive(orphan))


def test_backoff_doubles_up_to_five_seconds() -> None:
    pauses: list[float] = []
    backoff = Backoff()
    for _ in range(7):
        pause, backoff = backoff.after(lived_s=1.0)
        pauses.append(pause)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


def test_backoff_after_a_long_life_starts_from_the_beginning() -> None:
    backoff = Backoff()
    for _ in range(5):
        _, backoff = backoff.after(lived_s=1.0)
    assert backoff.after(lived_s=29.9)[0] == 5.0
    pause, following = backoff.after(lived_s=30.0)
    assert pause == 0.2
    assert following.after(lived_s=0.0)[0] == 0.4
