"""The state directory of `placet up`: where everything lies, and the lock that one supervisor holds."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

DEFAULT = Path(".placet/state")


class StateDirInUseError(RuntimeError):
    """Another `placet up` is alive on this directory."""


@dataclass(frozen=True, slots=True)
class StateDir:
    """`root` is absolute: children may run anywhere."""

    root: Path

    @classmethod
    def at(cls, path: Path) -> StateDir:
        return cls(path.expanduser().resolve())

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def bus_users(self) -> Path:
        return self.root / "nats"

    @property
    def bus(self) -> Path:
        """Configuration and store of the embedded nats-server."""
        return self.root / "nats" / "server"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def database_passwords(self) -> Path:
        return self.root / "keys" / "database.json"

    @property
    def policy_bundle(self) -> Path:
        return self.root / "policy-bundle"

    @property
    def ports(self) -> Path:
        return self.root / "ports.json"

    @property
    def processes(self) -> Path:
        """Process ids of this moment, by child; the READY line tells those of the start."""
        return self.root / "processes.json"

    def log(self, name: str) -> Path:
        return self.root / "logs" / f"{name}.log"

    def scratch(self, service: str) -> Path:
        """A service's own `PLACET_STATE_DIR`."""
        return self.root / "services" / service

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory. The kernel lets go of it when we die, however we die.

        Raises `StateDirInUseError`, naming the process that holds it.
        """
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "r+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = file.read().strip() or "unknown"
                raise StateDirInUseError(
                    f"{self.root} is in use by another `placet up` (process {holder});"
                    " stop it, or give this one its own --state-dir"
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield
