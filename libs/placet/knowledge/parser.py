"""Reads files in child processes, so that no file can hurt the service."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

from placet.knowledge.errors import ParseError, ParseFailure, too_large
from placet.knowledge.parsed import Block, ParsedDocument
from placet.knowledge.tokens import readable


@dataclass(frozen=True, slots=True)
class ParseLimits:
    """Per file: size and memory in bytes, times in seconds; `at_once` files are read in parallel."""

    size: int = 50_000_000
    memory: int = 1_000_000_000
    cpu_s: int = 30
    wall_s: float = 60.0
    at_once: int = 2


class Parser:
    """Runs `placet.knowledge.parse_worker` once per file."""

    def __init__(self, limits: ParseLimits | None = None) -> None:
        self._limits = limits or ParseLimits()
        self._slots = asyncio.Semaphore(self._limits.at_once)

    @property
    def max_bytes(self) -> int:
        return self._limits.size

    async def parse(self, filename: str, data: bytes) -> ParsedDocument:
        """Normalised text with page and section. Raises ParseError with a stable reason."""
        if len(data) > self.max_bytes:
            raise too_large(self.max_bytes)
        async with self._slots:
            output = await self._run(filename, data)
        return await asyncio.to_thread(_parsed, output)

    async def _run(self, filename: str, data: bytes) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-m", "placet.knowledge.parse_worker"),
            *(filename[-200:], str(self._limits.memory), str(self._limits.cpu_s)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},  # none of the service's secrets
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(data), self._limits.wall_s)
        except TimeoutError:
            raise ParseError(ParseFailure.TIMEOUT, "Reading the file takes too long.") from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode != 0:
            raise _crash(process.returncode)
        return output


def _parsed(output: bytes) -> ParsedDocument:
    """Seconds of work for the longest files. Raises ParseError."""
    answer: dict[str, Any] = json.loads(output)
    if "error" in answer:
        raise ParseError(ParseFailure(answer["error"]), answer["detail"])
    blocks = tuple(Block(text, page, tuple(section)) for text, page, section in answer["blocks"])
    return readable_document(ParsedDocument(answer["media_type"], blocks, answer["pages"]))


def readable_document(parsed: ParsedDocument) -> ParsedDocument:
    """The same with its text normalised for reading."""
    blocks = (
        Block(readable(block.text), block.page, tuple(readable(title) for title in block.section))
        for block in parsed.blocks
    )
    return replace(parsed, blocks=tuple(blocks))


def _crash(status: int | None) -> ParseError:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return ParseError(ParseFailure.TIMEOUT, "Reading the file takes too much processor time.")
    return ParseError(ParseFailure.CRASHED, "The file could not be read.")
