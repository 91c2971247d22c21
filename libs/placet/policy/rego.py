"""`RegoPolicy`: the policies evaluated in process by regopy (rego-cpp). The embedded default."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import orjson
import structlog
from regopy import Interpreter, RegoError, set_default_log_level

from placet.contracts.policy import NO_REVISION
from placet.policy.engine import PolicyEngine
from placet.policy.files import PolicyFilesError, digest, read_policy_files
from placet.policy.port import ENTRY_POINTS, Answered, Evaluation, Failure, Reload, Unanswered

T = TypeVar("T")

log = structlog.get_logger(__name__)

set_default_log_level("None")


class PolicyLoadError(PolicyFilesError):
    """The policies cannot be evaluated by this engine."""


class _Program:
    """One compiled revision. Not thread-safe: built and used on one thread."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.revision = digest(files)
        self._interpreter = Interpreter()
        try:
            for name, source in files.items():
                if name.endswith(".rego"):
                    self._interpreter.add_module(name, source.decode())
            # Re-encoded because rego-cpp compares strings as they are spelled: input is never written with \u escapes.
            self._interpreter.add_data_json(orjson.dumps(_tables(files)).decode())
            self._bundle = self._interpreter.build(None, [_path(name) for name in ENTRY_POINTS])
        except (RegoError, ValueError) as error:
            raise PolicyLoadError(str(error)) from error
        self._check()

    def _check(self) -> None:
        """rego-cpp builds even what is missing or misspelt. Entry points have defaults, so each answers to nothing."""
        for name in ENTRY_POINTS:
            if not isinstance(self.evaluate(name, b"{}"), Answered):
                raise PolicyLoadError(f"data.{name} has no answer to an empty input")

    def evaluate(self, entrypoint: str, encoded: bytes) -> Evaluation:
        if entrypoint not in ENTRY_POINTS:
            return Unanswered(Failure.UNDEFINED, f"data.{entrypoint} is no entry point", self.revision)
        try:
            # As JSON text: regopy's own conversion wraps integers at 64 bits and cuts strings at a NUL.
            self._interpreter.set_input_term(encoded.decode())
            output = self._interpreter.query_bundle_entrypoint(self._bundle, _path(entrypoint))
            if not output.ok():
                return Unanswered(Failure.FAILED, str(output), self.revision)
            values = output[0].expressions
        except (RegoError, ValueError, LookupError) as error:
            return Unanswered(Failure.FAILED, repr(error), self.revision)
        if not values:
            return Unanswered(Failure.UNDEFINED, f"data.{entrypoint}", self.revision)
        return Answered(values[0], self.revision)


class RegoPolicy(PolicyEngine):
    """Evaluates on one thread of its own: a decision takes about a millisecond and regopy is not thread-safe.

    `timeout_s` bounds how long a caller waits; the evaluation itself cannot be interrupted.
    """

    engine = "embedded"

    def __init__(self, policy_dir: Path, *, timeout_s: float = 2.0) -> None:
        self._policy_dir = policy_dir
        self._timeout_s = timeout_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rego")
        self._program: _Program | None = None
        self._closed = False

    @classmethod
    async def open(cls, policy_dir: Path, *, timeout_s: float = 2.0) -> Self:
        """Raises `PolicyLoadError` when the files cannot be read or evaluated."""
        policy = cls(policy_dir, timeout_s=timeout_s)
        try:
            policy._program = await policy._on_thread(policy._load)
        except BaseException:
            await policy.close()
            raise
        return policy

    async def _evaluate(self, entrypoint: str, encoded: bytes) -> Evaluation:
        if self._closed:
            return Unanswered(Failure.DOWN, "closed")
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._on_thread(lambda: self._run(entrypoint, encoded))
        except TimeoutError:
            return Unanswered(Failure.SLOW, f"more than {self._timeout_s} s")

    async def revision(self) -> str:
        return self._program.revision if self._program else NO_REVISION

    async def refresh(self) -> Reload:
        """Compares the directory with what is loaded. Files that cannot be used leave the loaded revision in force."""
        before = await self.revision()
        if self._closed:
            return Reload(changed=False, revision=before, problem="closed")
        try:
            program = await self._on_thread(self._load)
        except PolicyLoadError as error:
            log.error("policy_not_reloaded", detail=str(error), revision=before)
            return Reload(changed=False, revision=before, problem=str(error))
        self._program = program
        return Reload(changed=program.revision != before, revision=program.revision)

    async def ready(self) -> bool:
        return not self._closed and self._program is not None

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await self._on_thread(self._drop)
        self._thread.shutdown(wait=False)

    def _load(self) -> _Program:
        try:
            files = read_policy_files(self._policy_dir)
        except (OSError, PolicyFilesError) as error:
            raise PolicyLoadError(str(error)) from error
        if self._program and self._program.revision == digest(files):
            return self._program
        return _Program(files)

    def _run(self, entrypoint: str, encoded: bytes) -> Evaluation:
        if self._program is None:
            return Unanswered(Failure.DOWN, "closed")
        return self._program.evaluate(entrypoint, encoded)

    def _drop(self) -> None:
        self._program = None

    async def _on_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def check(files: Mapping[str, bytes]) -> None:
    """Raises `PolicyLoadError` when these files do not answer every entry point."""
    _Program(files)


def _path(entrypoint: str) -> str:
    return entrypoint.replace(".", "/")


def _tables(files: Mapping[str, bytes]) -> dict[str, Any]:
    """The `data.json` files as one document, each at the path of its directory, as OPA mounts them."""
    document: dict[str, Any] = {}
    for name, content in files.items():
        if not name.endswith(".rego"):
            place = document
            for part in name.split("/")[:-1]:
                place = place.setdefault(part, {})
            place.update(orjson.loads(content))
    return document
