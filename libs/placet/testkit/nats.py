"""A real nats-server with the real accounts, for tests: started, provisioned, killed and started again at will."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from placet.messaging.connection import Bus, BusSettings
from placet.messaging.credentials import seed_path, write_users
from placet.messaging.provision import provision
from placet.messaging.server import EmbeddedNats
from placet.testkit.ports import free_port


class NatsRig:
    """One server in one directory. Data survive `kill9` and `stop`; the port stays the same."""

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.directory = directory
        self.users = directory / "users"
        self.server = EmbeddedNats(directory / "nats", port or free_port(), write_users(self.users))
        self._process: subprocess.Popen[bytes] | None = None
        self._buses: list[Bus] = []

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def pid(self) -> int:
        """The server's process id; raises `RuntimeError` when it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("the test's nats-server is not running")
        return self._process.pid

    async def start(self) -> None:
        """Start the server and wait until it answers; provision what is missing (streams of an earlier start stay)."""
        await self.start_bare()
        bus = await Bus.connect(await self.settings("provision"))
        try:
            await provision(bus)
        finally:
            await bus.close()

    async def start_bare(self) -> None:
        """Start the server without provisioning it."""
        self.server.prepare()
        self._process = self._spawn()
        try:
            await self.server.wait_ready()
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"nats-server did not start:\n{self.log()[-2000:]}") from None

    async def settings(self, user: str) -> BusSettings:
        return BusSettings(self.url, user, seed_path(self.users, user).read_text(encoding="utf-8"))

    async def bus(self, user: str) -> Bus:
        """A new connection as `user`, closed by `close` at the latest."""
        bus = await Bus.connect(await self.settings(user))
        self._buses.append(bus)
        return bus

    def seed_file(self, user: str) -> Path:
        return seed_path(self.users, user)

    def log(self) -> str:
        return (self.directory / "nats.log").read_text(encoding="utf-8", errors="replace")

    def kill9(self) -> None:
        """What a crash or an out-of-memory killer does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """An orderly stop (SIGTERM)."""
        self._end(signal.SIGTERM)

    async def close(self) -> None:
        """Close every connection made here, then stop the server."""
        for bus in self._buses:
            await bus.close()
        self._buses.clear()
        self.stop()

    def _spawn(self) -> subprocess.Popen[bytes]:
        command, environment = self.server.command(), self.server.environment()
        with (self.directory / "nats.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
