"""Brings a directory of files in over the HTTP API, so that it can be stopped and started again."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.output import print_json, print_table
from placet.client.errors import ApiError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from placet.client import PlacetClient
    from placet.contracts.execution import DocumentView

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".text", ".html", ".htm", ".pdf", ".docx"})
_POLL_S = 0.3
# Per file, of which several are read at the same time; a large one takes minutes.
_PATIENCE_S = 900.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file: `imported`, `published`, `skipped` or `failed`."""

    file: str
    outcome: str
    document_id: str | None = None
    version: int | None = None
    reason: str | None = None


@dataclass(slots=True)
class Import:
    """One run over a directory. Files are sent one after the other; they are read while the next ones are sent."""

    client: PlacetClient
    directory: Path
    base: str
    publish: bool = False
    as_json: bool = False
    outcomes: list[Outcome] = field(default_factory=list)

    async def run(self) -> int:
        """Send what is not there yet; returns how many files failed. Raises `ApiError` when the API is away."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        files = sorted(files_below(self.directory))
        async with self.client:
            known = await self._known()
            with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as progress:
                bar = progress.add_task("sending", total=len(files))
                waiting = [await self._send(file, known, progress, bar) for file in files]
                bar = progress.add_task("reading", total=len(files))
                for outcome in waiting:
                    self._note(await self._settled(outcome))
                    progress.advance(bar)
        self._summary()
        return sum(one.outcome == "failed" for one in self.outcomes)

    async def _known(self) -> dict[str, DocumentView]:
        """By title, the documents of the base."""
        listed = [one async for one in self.client.documents.list()]
        return {one.title: one for one in listed if one.knowledge_base_id == self.base}

    async def _send(self, file: Path, known: dict[str, DocumentView], progress: Progress, bar: TaskID) -> Outcome:
        name, title = str(file.relative_to(self.directory)), title_of(file, self.directory)
        progress.update(bar, description=f"sending {name}")
        data = await asyncio.to_thread(file.read_bytes)
        present = known.get(title)
        try:
            if present is not None and hashlib.sha256(data).hexdigest() == (present.latest_sha256 or present.sha256):
                return Outcome(name, "skipped", present.document_id, present.latest_version or present.version)
            draft = await self.client.documents.upload(
                file.name,
                data,
                knowledge_base_id=self.base,
                title=title,
                document_id=present.document_id if present else None,
            )
        except ApiError as error:
            if not 400 <= error.status < 500:
                raise
            return Outcome(name, "failed", reason=error.code)
        finally:
            progress.advance(bar)
        return Outcome(name, "imported", draft.document_id, draft.version)

    async def _settled(self, sent: Outcome) -> Outcome:
        """Once the file has been read, and published where that was asked for."""
        if sent.outcome == "failed" or sent.document_id is None:
            return sent
        view = await self._read_to_the_end(sent.document_id)
        if view.state == "failed":
            reason = view.failure.reason if view.failure else "unknown"
            return Outcome(sent.file, "failed", sent.document_id, sent.version, reason)
        if view.state != "ready":
            return Outcome(sent.file, "failed", sent.document_id, sent.version, f"still {view.state}")
        if self.publish and (view.status, view.version) != ("published", sent.version):
            return await self._published(sent, sent.document_id)
        return sent

    async def _read_to_the_end(self, document_id: str) -> DocumentView:
        view = await self.client.documents.get(document_id)
        waited = 0.0
        while view.state not in ("ready", "failed") and waited < _PATIENCE_S:
            await asyncio.sleep(_POLL_S)
            waited += _POLL_S
            view = await self.client.documents.get(document_id)
        return view

    async def _published(self, sent: Outcome, document_id: str) -> Outcome:
        try:
            proposal = await self.client.documents.propose_publishing(document_id)
            decided = await self.client.documents.decide_publishing(proposal.proposal_id, approved=True)
        except ApiError as error:
            if not 400 <= error.status < 500:
                raise
            return Outcome(sent.file, "failed", document_id, sent.version, error.code)
        reason = decided.finish_reason.value if decided.finish_reason else decided.status.value
        outcome = "published" if reason == "success" else "failed"
        return Outcome(sent.file, outcome, document_id, sent.version, None if outcome == "published" else reason)

    def _note(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.as_json:
            print_json({name: getattr(outcome, name) for name in Outcome.__slots__})

    def _summary(self) -> None:
        if self.as_json:
            return
        rows = [(one.file, one.outcome, one.document_id, one.version, one.reason) for one in self.outcomes]
        print_table(("file", "outcome", "document", "version", "reason"), rows)
        counts = Counter(one.outcome for one in self.outcomes)
        print_table(("outcome", "files"), sorted(counts.items()) or [("nothing to import", 0)])


def files_below(directory: Path) -> Iterator[Path]:
    """Files that can be read, by the ending of their names; hidden ones and links out of the directory are left out."""
    root = directory.resolve()
    for file in directory.rglob("*"):
        parts = file.relative_to(directory).parts
        if (
            file.suffix.lower() in SUFFIXES
            and file.is_file()
            and not any(part.startswith(".") for part in parts)
            and file.resolve().is_relative_to(root)
        ):
            yield file


def title_of(file: Path, directory: Path) -> str:
    """The path below the directory without the ending: what tells the file again at the next import."""
    return file.relative_to(directory).with_suffix("").as_posix()
