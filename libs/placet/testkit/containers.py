"""Single containers of the compose file, run one by one as testcontainers.

What a container gets (image, command, environment, secrets, hardening) is read from docker-compose.yml as the compose
tool itself resolves it, so that what is tested is what is deployed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

import docker
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from placet.testkit.compose import LOG_LINES, ComposeError, Project

_PAUSE_S = 0.25

# The reaper is an image of its own that no offline machine has; everything here is removed by whoever made it.
testcontainers_config.ryuk_disabled = True


def engine_or_reason() -> str:
    """Empty when a container engine answers, else why there is none."""
    try:
        with _client() as client:
            client.ping()
    except docker.errors.DockerException as error:
        return f"no container engine answers ({error})"
    return ""


@contextmanager
def _client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    try:
        yield client
    finally:
        client.close()


class House:
    """Containers on a network of their own, under the names they have in the compose file. A context manager."""

    def __init__(self, project: Project) -> None:
        self._compose = project.resolved()
        self._network = Network()
        self._volumes: dict[str, str] = {}
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        client = self._cleanup.enter_context(_client())
        self._cleanup.enter_context(self._network)
        for name in self._compose.get("volumes") or {}:
            volume = client.volumes.create(f"placet-test-{secrets.token_hex(4)}-{name}")
            self._cleanup.callback(volume.remove, force=True)
            self._volumes[name] = volume.name
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cleanup.close()

    def start(self, service: str, *, ports: tuple[int, ...] = ()) -> DockerContainer:
        """Start one service as the compose file describes it; `ports` are published on free ports of this machine.

        It is removed with the house at the latest.
        """
        described = self._compose["services"][service]
        container = DockerContainer(described["image"], **self._settings(described))
        container.with_network(self._network).with_network_aliases(service)
        for name, value in (described.get("environment") or {}).items():
            if value is not None:
                container.with_env(name, str(value))
        for entry in described.get("tmpfs") or []:
            path, _, options = entry.partition(":")
            container.with_tmpfs_mount(path, options or None)
        if command := described.get("command"):
            container.with_command(command)
        if ports:
            container.with_exposed_ports(*ports)
        self._cleanup.callback(container.stop)
        return container.start()

    def run(self, service: str, limit_s: float = 120.0) -> None:
        """Start a one-shot service and wait for its end. Raises `ComposeError` with its log unless it exits 0."""
        container = self.start(service)
        code = container.get_wrapped_container().wait(timeout=limit_s)["StatusCode"]
        if code:
            raise ComposeError(f"{service} exited {code}:\n{log_of(container)}")

    def _settings(self, described: Mapping[str, Any]) -> dict[str, Any]:
        """The hardening and the mounts, in the words of the engine's API."""
        mounts = [self._mount(volume) for volume in described.get("volumes") or []]
        mounts += [self._secret(secret) for secret in described.get("secrets") or []]
        return {
            "read_only": described.get("read_only", False),
            "cap_drop": described.get("cap_drop"),
            "security_opt": described.get("security_opt"),
            "user": described.get("user"),
            "healthcheck": _healthcheck(described.get("healthcheck") or {}),
            "mounts": mounts,
        }

    def _mount(self, volume: str | Mapping[str, Any]) -> docker.types.Mount:
        """A volume in the short form (version 1.29 resolves to it) or in the long one (version 2)."""
        if isinstance(volume, str):
            source, target, *options = volume.split(":")
            read_only = "ro" in options
        else:
            source, target, read_only = volume["source"], volume["target"], bool(volume.get("read_only"))
        kind = "bind" if source.startswith("/") else "volume"
        return docker.types.Mount(target, self._volumes.get(source, source), type=kind, read_only=read_only)

    def _secret(self, secret: Mapping[str, str]) -> docker.types.Mount:
        source = secret["source"]
        target = secret.get("target", source)
        path = target if target.startswith("/") else f"/run/secrets/{target}"
        return docker.types.Mount(path, self._compose["secrets"][source]["file"], type="bind", read_only=True)


def _healthcheck(described: Mapping[str, Any]) -> dict[str, Any] | None:
    """The engine counts in nanoseconds; the compose tool prints whole seconds (`5s`). None: what the image says."""
    if described.get("disable") or described.get("test") == ["NONE"]:
        return {"test": ["NONE"]}
    if not described:
        return None
    nanoseconds = {name: int(described[name].removesuffix("s")) * 10**9 for name in ("interval", "timeout")}
    return {"test": described["test"], "retries": described["retries"], **nanoseconds}


def log_of(container: DockerContainer) -> str:
    text: bytes = container.get_wrapped_container().logs(tail=LOG_LINES)
    return text.decode("utf-8", "replace")


def health_of(container: DockerContainer) -> str:
    """`starting`, `healthy`, `unhealthy`; or the container's state when it does not run, or has no health check."""
    wrapped = container.get_wrapped_container()
    wrapped.reload()
    state = wrapped.attrs["State"]
    return str(state.get("Health", {}).get("Status", state["Status"]) if state["Running"] else state["Status"])


def wait_for_health(container: DockerContainer, wanted: str, limit_s: float) -> None:
    """Raises `ComposeError` with the container's log when it does not get there in time, or ends."""
    deadline = time.monotonic() + limit_s
    while (now := health_of(container)) != wanted:
        if now == "exited" or time.monotonic() > deadline:
            raise ComposeError(f"{container.image} is {now}, not {wanted}:\n{log_of(container)}")
        time.sleep(_PAUSE_S)
