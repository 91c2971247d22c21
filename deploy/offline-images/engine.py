"""A container engine of our own: installed when absent, started as a child, known by its pid, stopped by its pid."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
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
        """Stop our engine (SIGTERM, after a minute SIGKILL) and with `purge` remove its data. Safe to repeat."""
        pid = self._pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            if not self._gone_within(_STOP_S):
                os.kill(pid, signal.SIGKILL)
                self._gone_within(_STOP_S)
            print(f"engine: stopped, pid {pid}", flush=True)
        if purge:
            self._remove_data()

    def _spawn(self) -> subprocess.Popen[bytes]:
        argv = ["dockerd", "--data-root", f"{self.directory}/data", "--exec-root", f"{self.directory}/exec"]
        argv += ["--pidfile", str(self._pid_file), "--host", f"unix://{self._socket}"]
        print(f"engine: starting in {self.directory}", flush=True)
        with (self.directory / "dockerd.log").open("ab") as log:
            # Its own session: Ctrl-C reaches us first, and we stop it in order.
            return subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)

    def _pid(self) -> int | None:
        """Our engine's pid, or none. A pid file left by a crash may name somebody else's process by now."""
        try:
            pid = int(self._pid_file.read_text(encoding="ascii"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except (OSError, ValueError):
            return None
        return pid if f"{self.directory}/data" in command else None

    def _gone_within(self, limit_s: float) -> bool:
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)  # when we are its parent, it stays a zombie until it is waited for
            if self._pid() is None:
                return True
            time.sleep(_PAUSE_S)
        return False

    def _remove_data(self) -> None:
        for mount in reversed(_mounts_under(self.directory)):
            checked(["umount", "--lazy", mount])
        shutil.rmtree(self.directory, ignore_errors=True)
        if self.directory.exists():
            raise EngineError(f"could not remove {self.directory}")

    def _log_end(self) -> str:
        lines = (self.directory / "dockerd.log").read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-15:])


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
