"""A browser's `EventSource`, outside a browser: the npm package, installed at its pinned version by the test itself.

Version and content are pinned here (an npm lock would name a registry host). Scripts of packages are not run.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from placet.testkit.requirements import MissingError, required

REQUIRE_NODE = "PLACET_REQUIRE_NODE"
VERSION = "3.0.7"
_INSTALL_TIMEOUT_S = 120.0

_PACKAGES = {
    "node_modules/eventsource": {
        "version": VERSION,
        "integrity": "sha512-CRT1WTyuQoD771GW56XEZFQ/ZoSfWid1alKGDYMmkt2yl8UXrVR4pspqWNEcqKvVIzg6PAltWjxcSSPrboA4iA==",
        "dependencies": {"eventsource-parser": "^3.0.1"},
        "engines": {"node": ">=18.0.0"},
    },
    "node_modules/eventsource-parser": {
        "version": "3.0.6",
        "integrity": "sha512-Vo1ab+QXPzZ4tCa8SwIHJFaSzy4R6SHf7BY79rFBDf0idraZWAkYrDjDj8uWaSm3S2TK+hJ7/t1CEmZ7jXw+pg==",
        "engines": {"node": ">=18.0.0"},
    },
}
_ROOT = {"name": "placet-event-source", "version": "1.0.0", "private": True, "dependencies": {"eventsource": VERSION}}

# One line of JSON per event; ends with the run. A connection that is refused for good ends it with code 3.
_CLIENT = """\
import { EventSource } from "eventsource";
const [url, token, ...types] = process.argv.slice(2);
const authorized = (input, init) =>
  fetch(input, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });
const source = new EventSource(url, { fetch: authorized });
for (const type of types) {
  source.addEventListener(type, (event) => {
    console.log(JSON.stringify({ id: event.lastEventId, type, data: JSON.parse(event.data) }));
    if (type === "run.completed") source.close();
  });
}
source.addEventListener("open", () => console.error("open"));
source.addEventListener("error", (event) => {
  console.error("error", event.code ?? "", event.message ?? "");
  if (source.readyState === EventSource.CLOSED) process.exit(3);
});
"""


def node_or_reason(environment: Mapping[str, str] = os.environ) -> tuple[str | None, str]:
    """The `node` to test with, else why there is none. Raises `MissingError` when `PLACET_REQUIRE_NODE` is set."""
    path = environment.get("PATH")
    node, npm = shutil.which("node", path=path), shutil.which("npm", path=path)
    if node and npm:
        return node, ""
    if required(REQUIRE_NODE, environment):
        raise MissingError(f"{REQUIRE_NODE} is set, but there is no node and npm on the path")
    return None, "no node and npm on the path"


async def install(directory: Path) -> Path:
    """The client's folder below `directory`, made once. Raises `RuntimeError` with npm's words when it cannot be."""
    target = directory / f"eventsource-{VERSION}"
    if target.exists():
        return target
    partial = _prepared(directory)
    npm = await asyncio.create_subprocess_exec(
        *("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"),
        cwd=partial,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(_INSTALL_TIMEOUT_S):
        said, _ = await npm.communicate()
    if npm.returncode:
        raise RuntimeError(f"npm could not install eventsource {VERSION}: {said.decode()[-1000:]}")
    _put(partial, target)
    return target


def _prepared(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=directory, prefix="partial-"))
    lock = {**_ROOT, "lockfileVersion": 3, "requires": True, "packages": {"": _ROOT, **_PACKAGES}}
    for name, text in (
        ("package.json", json.dumps(_ROOT)),
        ("package-lock.json", json.dumps(lock)),
        ("client.mjs", _CLIENT),
    ):
        (partial / name).write_text(text, encoding="utf-8")
    return partial


def _put(partial: Path, target: Path) -> None:
    try:
        partial.rename(target)
    except OSError:  # another test process was first
        shutil.rmtree(partial, ignore_errors=True)


@dataclass
class EventSourceClient:
    """A running client. `seen` grows by `(id, type)`; `connections` counts how often it was let in."""

    process: asyncio.subprocess.Process
    seen: list[tuple[int, str]] = field(default_factory=list)
    connections: int = 0
    errors: list[str] = field(default_factory=list)

    async def ended(self) -> int:
        """Its exit code, once it has seen the last event (0) or was refused for good (3)."""
        return await self.process.wait()

    async def read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            event = json.loads(line)
            self.seen.append((int(event["id"]), event["type"]))

    async def listen(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            if line.strip() == b"open":
                self.connections += 1
            else:
                self.errors.append(line.decode().strip())


@asynccontextmanager
async def connected(
    node: str, folder: Path, url: str, token: str, types: list[str]
) -> AsyncIterator[EventSourceClient]:
    """An `EventSource` on `url` that reconnects by itself, as the standard says."""
    process = await asyncio.create_subprocess_exec(
        *(node, str(folder / "client.mjs"), url, token, *types),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    client = EventSourceClient(process)
    readers = [asyncio.create_task(client.read()), asyncio.create_task(client.listen())]
    try:
        yield client
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(*readers)
