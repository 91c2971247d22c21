"""Plain text."""

from __future__ import annotations

import codecs
import re

from placet.knowledge.formats.outline import Outline
from placet.knowledge.formats.refusal import Refused
from placet.knowledge.parsed import Block

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# What the bytes of each encoding's characters of everyday use begin with (GB 2312 and Big5, level 1).
_COMMON = (("gb18030", range(0xB0, 0xD8), 0xA1), ("big5", range(0xA4, 0xC7), 0x40))
_IDEOGRAPH = re.compile("[\u4e00-\u9fff]")
_LOOKED_AT = 100_000  # characters
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


def decode(data: bytes) -> str:
    """UTF-8 unless the bytes say otherwise; older encodings (GB18030, Big5, Windows) are recognised.

    Raises Refused `bad_encoding` for bytes that are no text, or whose encoding stays a guess.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return _strict(data, encoding)
    if b"\x00" in data:
        raise Refused("bad_encoding", "The file holds binary data, not text.")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return _guessed(data)


def _strict(data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Refused("bad_encoding", f"The file says it is {encoding} and is not.") from error


def _guessed(data: bytes) -> str:
    chinese = _chinese(data)
    if chinese is not None:
        return chinese
    from charset_normalizer import from_bytes

    best = from_bytes(data).best()
    # Without a language recognised in it, a few bytes fit many encodings, and the first of them is mere chance.
    if best is None or best.percent_chaos > 10 or best.percent_coherence <= 0:
        raise Refused("bad_encoding", "The encoding of the text could not be recognised; save it as UTF-8.")
    return str(best)


def _chinese(data: bytes) -> str | None:
    """The text if it is GB18030 or Big5: in the right one, nearly all characters are among the common ones."""
    for encoding, leads, trail in _COMMON:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        wide = [char.encode(encoding) for char in _IDEOGRAPH.findall(text[:_LOOKED_AT])]
        common = sum(char[0] in leads and char[1] >= trail for char in wide)
        if wide and common >= 0.9 * len(wide):
            return text
    return None


def parse(data: bytes) -> tuple[Block, ...]:
    outline = Outline()
    for paragraph in _BLANK_LINE.split(decode(data).replace("\r\n", "\n").replace("\r", "\n")):
        outline.text(paragraph)
    return outline.finish()
