"""The embedded server: prepared once, then run as a child of whoever supervises it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg

from placet.storage.embedded.account import Account, open_way, server_account
from placet.storage.embedded.binaries import binaries
from placet.storage.embedded.cluster import ADMIN, DATA, PASSWORD_FILE, create_cluster
from placet.storage.embedded.errors import EmbeddedPostgresError
from placet.storage.roles import DATABASE

MAX_SOCKET_PATH = 100  # bytes; the kernel's limit is 107 on Linux and 103 on macOS
# Outside the kernel's range for outgoing connections, so that nothing takes the port while the server restarts.
PORTS = range(15_000, 30_000)

SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "256MB",  # taken as the data grows; 64 cost a search of 200,000 chunks a fifth more time
    "max_wal_size": "512MB",
    "max_connections": "100",
    "password_encryption": "scram-sha-256",
    "io_method": "sync",  # the default starts three more processes for read-ahead, of no use on a small host
    "jit": "off",  # compiles for longer than our short queries run
    "random_page_cost": "1.1",
    "autovacuum_naptime": "10s",  # statistics soon after a first load: plans without them scan
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_messages": "warning",
} | ({"recovery_init_sync_method": "syncfs"} if sys.platform.startswith("linux") else {})


class EmbeddedPostgres:
    """One server below `home`: `data/` (the cluster), `run/` (the socket), `admin.password`, `port`.

    A supervisor calls `prepare()` once, starts `command()` as a child and awaits `wait_ready()`; after a crash it
    starts the same command again. Stop it with `stop_signal`. Without a supervisor use `start()` and `stop()`.
    The server shuts down when the process that called `command()` dies (Linux).
    """

    stop_signal = signal.SIGINT
    """Fast shutdown. SIGTERM would wait for every client to leave by itself."""

    def __init__(self, home: Path) -> None:
        self.home = home.resolve()
        self.data = self.home / DATA
        self._account: Account | None = None
        self._lock: IO[str] | None = None
        self._process: asyncio.subprocess.Process | None = None

    # -- for a supervisor ------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Take the lock, make the cluster if there is none, choose the port. Idempotent.

        Raises EmbeddedPostgresError when another process owns `home`, or the binaries are missing or cannot run.
        """
        self.home.mkdir(parents=True, exist_ok=True)
        self._take_lock()
        self._account = server_account()
        if self._account is not None:
            self.home.chmod(0o711)
            open_way(self.data, self._account)
            open_way(binaries() / "postgres", self._account)
        self._make_run_directory()
        self._choose_port()
        if not (self.data / "PG_VERSION").exists():
            create_cluster(self.home, self._account)

    def command(self) -> list[str]:
        """The argument list of the server process; call it in the process that will be its parent."""
        switch: list[str] = []
        if self._account is not None:
            switch = ["--uid", str(self._account.uid), "--gid", str(self._account.gid)]
        server = [str(binaries() / "postgres"), "-D", str(self.data), "-k", str(self.run), "-p", str(self.port)]
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        launcher = [sys.executable, "-I", str(Path(__file__).with_name("launch.py"))]
        own = ["--data", str(self.data), "--parent", str(os.getpid()), *switch]
        return [*launcher, *own, "--", *server, "-c", "listen_addresses=127.0.0.1", *settings]

    async def wait_ready(self, timeout_s: float = 30.0) -> None:
        """Return once the server answers a query. Raises EmbeddedPostgresError after `timeout_s` seconds."""
        deadline = time.monotonic() + timeout_s
        pause_s = 0.02
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(self.admin_url, connect_timeout=5) as connection:
                    await connection.execute("SELECT 1")
                    return
            except psycopg.OperationalError as error:
                self._fail_if_gone()
                if time.monotonic() > deadline:
                    raise EmbeddedPostgresError(f"the server is not ready after {timeout_s:g} s: {error}") from error
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.3, 0.25)

    # -- addresses -------------------------------------------------------------------------------------------------

    @property
    def run(self) -> Path:
        """The socket directory: beside the data, or a short one under the temporary directory."""
        beside = self.home / "run"
        if len(os.fsencode(beside)) + len("/.s.PGSQL.00000") <= MAX_SOCKET_PATH:
            return beside
        digest = sha256(os.fsencode(self.home)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"placet-pg-{digest}"

    @property
    def port(self) -> int:
        """TCP port on 127.0.0.1, also part of the socket's name. Stable over restarts."""
        return int((self.home / "port").read_text())

    @property
    def admin_url(self) -> str:
        """Superuser, for `ensure_roles` only."""
        return self.url(ADMIN, (self.home / PASSWORD_FILE).read_text().strip(), database=ADMIN)

    def url(self, role: str, password: str, *, database: str = DATABASE) -> str:
        """Connection URL over the local socket."""
        return (
            f"postgresql://{role}:{quote(password, safe='')}@/{database}?host={quote(str(self.run))}&port={self.port}"
        )

    def tcp_url(self, role: str, password: str, *, database: str = DATABASE) -> str:
        """Connection URL over TCP, for clients that cannot reach the socket."""
        return f"postgresql://{role}:{quote(password, safe='')}@127.0.0.1:{self.port}/{database}"

    # -- without a supervisor --------------------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """Process id of the server started by `start()`; None once it has ended: the id may be somebody else's then."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self, timeout_s: float = 30.0) -> None:
        """Prepare, run as a child (log to `home/postgres.log`) and wait until it is ready."""
        await asyncio.to_thread(self.prepare)
        with (self.home / "postgres.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        await self.wait_ready(timeout_s)

    async def stop(self, timeout_s: float = 15.0) -> None:
        """Fast shutdown; immediate after `timeout_s` seconds. Releases the lock."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.send_signal(self.stop_signal)
            try:
                await asyncio.wait_for(process.wait(), timeout_s)
            except TimeoutError:
                process.send_signal(signal.SIGQUIT)
                await process.wait()
        self.release()

    async def kill(self) -> None:
        """SIGKILL, as a crash would; `start()` recovers."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()

    def release(self) -> None:
        """Give up the lock on `home`; for a supervisor after the server has stopped."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _fail_if_gone(self) -> None:
        if self._process is not None and self._process.returncode is not None:
            tail = (self.home / "postgres.log").read_text(errors="replace")[-2000:]
            raise EmbeddedPostgresError(f"the server ended with status {self._process.returncode}:\n{tail}")

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        handle = (self.home / "lock").open("w")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.close()
            raise EmbeddedPostgresError(f"another process already runs the database in {self.home}") from None
        self._lock = handle

    def _make_run_directory(self) -> None:
        run = self.run
        run.mkdir(mode=0o755, exist_ok=True)
        if run.is_symlink() or run.stat().st_uid not in {os.geteuid(), *self._account_ids()}:
            raise EmbeddedPostgresError(f"{run} belongs to somebody else; remove it")
        self._give(run)

    def _choose_port(self) -> None:
        """Keep the remembered port unless somebody else listens on it by now."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            if _is_free(self.port):
                return
        candidates = random.sample(PORTS, 200)
        (self.home / "port").write_text(str(next(port for port in candidates if _is_free(port))))

    def _give(self, path: Path) -> None:
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid)

    def _account_ids(self) -> set[int]:
        return {self._account.uid} if self._account is not None else set()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
