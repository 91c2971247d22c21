"""A container engine of our own: installed when absent, started as a child, known by its pid, stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from client import ClientError, checked

PACKAGES = {"dockerd": "docker.io", "docker-compose": "docker-compose", "mmdebstrap": "mmdebstrap"}
_START_S = 60.0
_STOP_S = 60.0
_PAUSE_S = 0.25
_SOCKET_MAX = 107 - len("/exec/containerd/containerd-debug.sock")


class EngineError(Exception):
    """The engine could not be installed, started or stopped; the message says what to do."""


def _answers(host: str | None) -> bool:
    environment = dict(os.environ) if host is None else {**os.environ, "DOCKER_HOST": host}
    try:
        checked(["docker", "version", "--format", "{{.Server.Version}}"], environment)
    except (ClientError, FileNotFoundError):
        return False
    return True


def install_missing() -> None:
    """Install what is missing with apt. Raises `EngineError` where that is not possible."""
    missing = sorted(package for command, package in PACKAGES.items() if shutil.which(command) is None)
    if not missing:
        return
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise EngineError(f"no container engine answers, and installing {', '.join(missing)} needs apt and root")
    print(f"engine: installing {', '.join(missing)}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    checked(["apt-get", "update", "-qq"], environment)
    checked(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing, "iptables"], environment)


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine whose data, socket and pid file live in one folder."""

    directory: Path

    @property
    def _socket(self) -> Path:
        return self.directory / "docker.sock"

    @property
    def _pid_file(self) -> Path:
        return self.directory / "dockerd.pid"

    def host(self) -> str:
        """The DOCKER_HOST to use: our own engine if it runs, else the one already there. Raises `EngineError`."""
        own = f"unix://{self._socket}"
        if self._pid() is not None and _answers(own):
            return own
        if _answers(None):
            return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
        raise EngineError("no container engine answers: run `python deploy/offline-images start`")

    def start(self) -> bool:
        """Start our engine and wait until it answers; true if we started it, false if one was there already."""
        with contextlib.suppress(EngineError):
            print(f"engine: using {self.host()}", flush=True)
            return False
        install_missing()
        if len(str(self.directory)) > _SOCKET_MAX:
            raise EngineError(f"{self.directory} is too long for a socket path: choose a shorter --dir")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._end_orphan()
        self._pid_file.unlink(missing_ok=True)
        began = time.monotonic()
        process = self._spawn()
        while not _answers(f"unix://{self._socket}"):
            if process.poll() is not None or time.monotonic() - began > _START_S:
                raise EngineError(f"dockerd did not start:\n{self._log_end()}")
            time.sleep(_PAUSE_S)
        print(f"engine: ready after {time.monotonic() - began:.1f} s, pid {process.pid}", flush=True)
        return True

    def stop(self, *, purge: bool = False) -> None:
        """Stop our engine and with `purge` remove its data. Safe to repeat."""
        pid = self._pid()
        if pid is not None:
            _end(pid, lambda: self._pid() == pid)
            print(f"engine: stopped, pid {pid}", flush=True)
        self._end_orphan()
        if purge:
            self._remove_data()

    def _end_orphan(self) -> None:
        """containerd ends with dockerd, unless that was killed; the next one must not take its file for a live one."""
        file = self.directory / "exec/containerd/containerd.pid"
        marker = f"{self.directory}/exec/containerd/containerd.toml"
        pid = _pid_in(file, marker)
        if pid is not None:
            _end(pid, lambda: _pid_in(file, marker) == pid)
        file.unlink(missing_ok=True)

    def _spawn(self) -> subprocess.Popen[bytes]:
        argv = ["dockerd", "--data-root", f"{self.directory}/data", "--exec-root", f"{self.directory}/exec"]
        argv += ["--pidfile", str(self._pid_file), "--host", f"unix://{self._socket}"]
        print(f"engine: starting in {self.directory}", flush=True)
        with (self.directory / "dockerd.log").open("ab") as log:
            # Its own session: Ctrl-C reaches us first, and we stop it in order.
            return subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def _pid(self) -> int | None:
        return _pid_in(self._pid_file, f"{self.directory}/data")

    def _remove_data(self) -> None:
        for mount in reversed(_mounts_under(self.directory)):
            checked(["umount", "--lazy", mount])
        shutil.rmtree(self.directory, ignore_errors=True)
        if self.directory.exists():
            raise EngineError(f"could not remove {self.directory}")

    def _log_end(self) -> str:
        lines = (self.directory / "dockerd.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-15:])


def _pid_in(file: Path, argument: str) -> int | None:
    """The pid in a file if that process was started with this argument: a stale file may name anybody's by now."""
    try:
        pid = int(file.read_text(encoding="ascii"))
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except (OSError, ValueError):
        return None
    return pid if argument in arguments else None


def _end(pid: int, alive: Callable[[], bool]) -> None:
    """SIGTERM, and SIGKILL when it is still there after a minute. Raises `EngineError` when even that does not help."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + _STOP_S
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)  # when it is our child, it stays a zombie until it is waited for
            if not alive():
                return
            time.sleep(_PAUSE_S)
    raise EngineError(f"process {pid} cannot be stopped")


def _mounts_under(directory: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    return [point for line in lines if (point := line.split(" ")[1]).startswith(f"{directory}/")]


@contextlib.contextmanager
def engine_running(engine: Engine, *, purge: bool = False) -> Iterator[str]:
    """An engine for the length of a block. One that we started is stopped whatever happens, another is left alone."""
    ours = engine.start()
    try:
        yield engine.host()
    finally:
        if ours:
            engine.stop(purge=purge)
