"""The parser's child process: one file on standard input, JSON on standard output, under hard limits.

Files come from outside and their parsers are large native libraries: they run where they hold no secret, no connection
and no more memory and processor time than they were given.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass

from placet.knowledge.formats.refusal import Refused
from placet.knowledge.parsed import DOCX, PDF, SUFFIXES, Block, ParsedDocument

MAX_TEXT = 20_000_000  # characters
MAX_BLOCKS = 200_000  # the service holds one value for each
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # old Office files, and new ones that are encrypted


@dataclass(frozen=True, slots=True)
class _Parsed:
    blocks: tuple[Block, ...]
    pages: int | None = None


def main(filename: str, memory_bytes: int, cpu_s: int) -> None:
    _limit(memory_bytes, cpu_s)
    data = sys.stdin.buffer.read()
    try:
        parsed = parse(filename, data)
        answer: dict[str, object] = {
            "media_type": parsed.media_type,
            "pages": parsed.pages,
            "blocks": [[block.text, block.page, block.section] for block in parsed.blocks],
        }
    except Refused as refused:
        answer = {"error": refused.reason, "detail": refused.detail}
    except MemoryError:
        answer = {"error": "memory_limit", "detail": "Reading the file needs too much memory."}
    except Exception:  # noqa: BLE001 (native parsers raise whatever a broken file brings them to)
        answer = {"error": "corrupt", "detail": "The file cannot be read: it is damaged or nested too deeply."}
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def parse(filename: str, data: bytes) -> ParsedDocument:
    """Raises Refused. The name's ending says what the file should be, the bytes must agree."""
    if not data:
        raise Refused("empty_file", "The file is empty.")
    media_type = SUFFIXES.get(filename.rpartition(".")[2].lower())
    if media_type is None:
        raise Refused("unsupported_type", "Only Markdown, text, HTML, PDF and DOCX can be read.")
    _check_bytes(media_type, data)
    parsed = _READERS[media_type](data)
    if not parsed.blocks:
        raise Refused("no_text", "No text was found in the file.")
    if sum(len(block.text) for block in parsed.blocks) > MAX_TEXT:
        raise Refused("too_large", f"The file holds more than {MAX_TEXT} characters.")
    if len(parsed.blocks) > MAX_BLOCKS:
        raise Refused("too_large", f"The file holds more than {MAX_BLOCKS} paragraphs.")
    return ParsedDocument(media_type=media_type, blocks=parsed.blocks, pages=parsed.pages)


def _check_bytes(media_type: str, data: bytes) -> None:
    if data.startswith(_OLE):
        if media_type == DOCX:
            raise Refused("encrypted", "The document is protected by a password, or in the old .doc format.")
        raise Refused("type_mismatch", "The file is an Office document, not what its name says.")
    is_pdf = b"%PDF-" in data[:1024]
    is_zip = data.startswith(b"PK\x03\x04")
    expected = {PDF: is_pdf and not is_zip, DOCX: is_zip}.get(media_type, not is_pdf and not is_zip)
    if not expected:
        if not (is_pdf or is_zip) and media_type in (PDF, DOCX):
            raise Refused("corrupt", f"The file is not a readable {'PDF' if media_type == PDF else 'Word document'}.")
        raise Refused("type_mismatch", "The file is not what the ending of its name says.")


def _markdown(data: bytes) -> _Parsed:
    from placet.knowledge.formats import markdown

    return _Parsed(markdown.parse(data))


def _plain(data: bytes) -> _Parsed:
    from placet.knowledge.formats import plain

    return _Parsed(plain.parse(data))


def _html(data: bytes) -> _Parsed:
    from placet.knowledge.formats import html

    return _Parsed(html.parse(data))


def _pdf(data: bytes) -> _Parsed:
    from placet.knowledge.formats import pdf

    return _Parsed(*pdf.parse(data))


def _docx(data: bytes) -> _Parsed:
    from placet.knowledge.formats import docx

    return _Parsed(docx.parse(data))


_READERS: dict[str, Callable[[bytes], _Parsed]] = {
    "text/markdown": _markdown,
    "text/plain": _plain,
    "text/html": _html,
    PDF: _pdf,
    DOCX: _docx,
}


def _limit(memory_bytes: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # standard output is a pipe; no file may be written
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    if sys.platform.startswith("linux"):  # macOS accepts the call and ignores it
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
