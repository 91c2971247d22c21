"""HTML: what a reader sees, not scripts, styles, comments or hidden elements."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree
from lxml import html as lxml_html

from placet.knowledge.formats import plain
from placet.knowledge.formats.outline import Outline
from placet.knowledge.formats.refusal import Refused
from placet.knowledge.parsed import Block

_SKIPPED = frozenset({"script", "style", "noscript", "template", "head", "svg", "math", "iframe", "object", "nav"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCK_NAMES = """
address article aside blockquote body caption dd div dl dt fieldset figcaption figure footer form header hr html li main
ol p pre section table tbody tfoot thead tr ul
"""
_BLOCKS = frozenset(_BLOCK_NAMES.split()) | frozenset(_HEADINGS)
_CELLS = frozenset({"td", "th"})


def parse(data: bytes) -> tuple[Block, ...]:
    outline = Outline()
    walk(_decoded(data), outline)
    return outline.finish()


def _decoded(data: bytes) -> str:
    """UTF-8 or recognised; a declared `<meta charset>` is tried first when the bytes are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    head = data[:2048].lower()
    for declared in (b"gb18030", b"gbk", b"gb2312", b"big5"):
        if declared in head:
            return data.decode("gb18030" if declared != b"big5" else "big5", errors="replace")
    return plain.decode(data)


def walk(markup: str, outline: Outline) -> None:
    """Add the visible text of `markup` to `outline`. Iterative: depth cannot exhaust the stack."""
    if not markup.strip():
        return
    try:
        # As bytes: lxml refuses text that names an encoding of its own.
        parser = lxml_html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
        root = lxml_html.document_fromstring(markup.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError) as error:
        raise Refused("corrupt", "The HTML cannot be read.") from error
    held: list[str] = []
    for tag, text in _flow(root):
        if text is not None:
            held.append(text)
        elif tag in _BLOCKS:
            outline.text("".join(held))
            held = []
        elif tag in _HEADINGS_END:
            outline.heading(_HEADINGS_END[tag], "".join(held))
            held = []
    outline.text("".join(held))


_HEADINGS_END = {f"/{name}": level for name, level in _HEADINGS.items()}


def _flow(root: etree._Element) -> Iterator[tuple[str, str | None]]:
    """Text pieces as ("", text) and boundaries as (tag, None); the end of a heading as ("/h1", None)."""
    skipping: etree._Element | None = None
    for event, node in etree.iterwalk(root, events=("start", "end")):
        tag = node.tag if isinstance(node.tag, str) else ""
        if event == "start" and skipping is None:
            if tag in _SKIPPED or _is_hidden(node):
                skipping = node
                continue
            yield from _opening(tag, node)
        elif event == "end":
            if skipping is None:
                yield (f"/{tag}" if tag in _HEADINGS else tag, None)
                if tag in _CELLS and node.getnext() is not None:
                    yield "", " | "
            if skipping is node:
                skipping = None
            if skipping is None and node.tail:
                yield "", node.tail.replace("\n", " ")


def _opening(tag: str, node: etree._Element) -> Iterator[tuple[str, str | None]]:
    yield tag, None
    if tag == "br":
        yield "", "\n"
    if node.text:
        yield "", node.text if tag == "pre" else node.text.replace("\n", " ")


def _is_hidden(node: etree._Element) -> bool:
    style = (node.get("style") or "").replace(" ", "").lower()
    return (
        node.get("hidden") is not None
        or node.get("aria-hidden") == "true"
        or "display:none" in style
        or "visibility:hidden" in style
    )
