"""Files good and bad, through the real child process."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import docx
import pytest
from fpdf import FPDF

from placet.contracts.errors import ErrorCode
from placet.knowledge.errors import ParseError, ParseFailure
from placet.knowledge.parser import ParseLimits, Parser
from tests.integration.bad_files import encrypted_pdf, entity_bomb, long_pdf, zip_bomb

pytestmark = pytest.mark.spec("K1")


def _docx(*paragraphs: str) -> bytes:
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def _empty_pdf() -> bytes:
    pdf = FPDF()
    pdf.add_page()
    return bytes(pdf.output())


async def _failure(filename: str, data: bytes, limits: ParseLimits | None = None) -> ParseFailure:
    with pytest.raises(ParseError) as caught:
        await Parser(limits).parse(filename, data)
    assert caught.value.code is ErrorCode.INVALID_ARGUMENTS
    assert caught.value.details == {"reason": caught.value.reason.value}
    return caught.value.reason


async def test_parse_of_markdown_gives_sections_and_text_without_markup() -> None:
    source = (
        "---\nkey: value\n---\n# Top\n\n## Sub\n\nA **bold** [link](http://x).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    )
    parsed = await Parser().parse("a.md", source.encode())
    assert [(block.text, block.section) for block in parsed.blocks] == [
        ("A bold link.", ("Top", "Sub")),
        ("a | b", ("Top", "Sub")),
        ("1 | 2", ("Top", "Sub")),
    ]


async def test_parse_of_html_gives_what_a_reader_sees() -> None:
    source = """<html><head><title>t</title></head><body><h1>Top</h1><p>One<br>two</p><script>x()</script>
    <p style="display: none">hidden</p><!-- note --><table><tr><td>a</td><td>b</td></tr></table></body></html>"""
    parsed = await Parser().parse("a.html", source.encode())
    assert [block.text for block in parsed.blocks] == ["One\ntwo", "a | b"]
    assert {block.section for block in parsed.blocks} == {("Top",)}


async def test_parse_of_xhtml_that_names_its_encoding_is_read() -> None:
    source = '<?xml version="1.0" encoding="utf-8"?><html><body><p>中文</p></body></html>'
    assert [block.text for block in (await Parser().parse("a.html", source.encode())).blocks] == ["中文"]


async def test_parse_of_pdf_gives_pages_and_bookmarks_in_both_languages(root: Path) -> None:
    data = (root / "seeds/knowledge/acme/expense-policy.pdf").read_bytes()
    parsed = await Parser().parse("expense-policy.pdf", data)
    assert parsed.pages == 2
    assert [(block.page, block.section) for block in parsed.blocks][::4] == [
        (1, ("费用报销制度",)),
        (2, ("Expense policy",)),
    ]
    assert "手机话费补贴为每月 80 元。" in [block.text for block in parsed.blocks]


async def test_parse_of_docx_gives_headings_as_sections_and_rows_of_tables(root: Path) -> None:
    data = (root / "seeds/knowledge/acme/refund-handbook.docx").read_bytes()
    parsed = await Parser().parse("refund-handbook.docx", data)
    assert ("broken on arrival | one photo", ("Refund handbook", "Escalation")) in [
        (b.text, b.section) for b in parsed.blocks
    ]
    assert parsed.pages is None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030", "big5"])
async def test_parse_of_text_recognises_its_encoding(encoding: str) -> None:
    text = "辦公室開放時間為工作日上午七點半至晚上九點，週末進入辦公室須提前向行政部申請。" * 5
    parsed = await Parser().parse("a.txt", text.encode(encoding))
    assert parsed.blocks[0].text == text


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("差旅", "gb18030"),
        ("请假须提前三天申请。", "gb18030"),
        ("Travel policy 差旅制度: 650 per night, 每晚 650 元。", "gb18030"),
        ("第一行，保持原样。", "gb18030"),
        ("週末進入辦公室須提前申請。", "big5"),
    ],
)
async def test_parse_of_a_short_chinese_text_recognises_its_encoding(text: str, encoding: str) -> None:
    parsed = await Parser().parse("a.txt", text.encode(encoding))
    assert parsed.blocks[0].text == text


def str_of_case(value: object) -> str | None:
    """An id that is the same in every process: made files differ by the second they were made in."""
    return f"{len(value)} bytes" if isinstance(value, bytes) else None


@pytest.mark.parametrize(
    ("filename", "data", "reason"),
    [
        ("a.md", b"", ParseFailure.EMPTY_FILE),
        ("a.md", b" \n\n", ParseFailure.NO_TEXT),
        ("a.html", b"<script>x()</script>", ParseFailure.NO_TEXT),
        ("a.exe", b"MZ", ParseFailure.UNSUPPORTED_TYPE),
        ("noending", b"text", ParseFailure.UNSUPPORTED_TYPE),
        ("a.txt", b"\x89PNG\r\n\x1a\n\x00\x00", ParseFailure.BAD_ENCODING),
        ("a.txt", "文".encode("utf-16-le") * 9 + b"\xff\x00", ParseFailure.BAD_ENCODING),
        ("a.md", "可用".encode()[:-1] + b"\xff\xfe\xfd", ParseFailure.BAD_ENCODING),
        ("a.txt", "déjà vu".encode("latin-1"), ParseFailure.BAD_ENCODING),
        ("a.txt", "差旅制度".encode() * 9 + "差旅制度".encode("gb18030"), ParseFailure.BAD_ENCODING),
        ("a.pdf", b"%PDF-1.7\n" + b"\x80\x81" * 2500, ParseFailure.CORRUPT),
        ("a.pdf", b"just text", ParseFailure.CORRUPT),
        ("a.pdf", _docx("x"), ParseFailure.TYPE_MISMATCH),
        ("a.md", _docx("x"), ParseFailure.TYPE_MISMATCH),
        ("a.txt", _empty_pdf(), ParseFailure.TYPE_MISMATCH),
        ("a.pdf", _empty_pdf(), ParseFailure.NO_TEXT),
        ("a.pdf", encrypted_pdf(), ParseFailure.ENCRYPTED),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), ParseFailure.ENCRYPTED),
        ("a.docx", b"PK\x03\x04" + b"\x80\x81" * 250, ParseFailure.CORRUPT),
        ("a.docx", _docx(), ParseFailure.NO_TEXT),
        ("a.docx", _docx("text")[:-200], ParseFailure.CORRUPT),
        ("a.docx", zip_bomb(1_000_000, declared=4_000_000_000), ParseFailure.EXPANDS_TOO_MUCH),
        ("a.docx", zip_bomb(20_000_000, declared=100), ParseFailure.CORRUPT),
        ("a.docx", entity_bomb(), ParseFailure.CORRUPT),
        ("a.pdf", long_pdf(5_001), ParseFailure.TOO_MANY_PAGES),
        ("a.txt", b"a\n\n" * 200_001, ParseFailure.TOO_LARGE),
        ("a.html", b"<div>" * 200_000 + b"x", ParseFailure.NO_TEXT),
    ],
    ids=str_of_case,
)
async def test_parse_of_a_bad_file_gives_its_typed_reason(filename: str, data: bytes, reason: ParseFailure) -> None:
    assert await _failure(filename, data) is reason


async def test_parse_beyond_the_size_limit_starts_no_process() -> None:
    assert await _failure("a.md", b"x" * 101, ParseLimits(size=100)) is ParseFailure.TOO_LARGE


async def test_parse_beyond_the_time_limit_is_killed() -> None:
    assert await _failure("a.md", b"- a\n" * 2_000_000, ParseLimits(wall_s=0.4)) is ParseFailure.TIMEOUT


async def test_parse_beyond_the_processor_limit_is_killed() -> None:
    assert await _failure("a.md", b"- a\n" * 2_000_000, ParseLimits(cpu_s=1)) is ParseFailure.TIMEOUT


async def test_parse_beyond_the_memory_limit_is_refused() -> None:
    data = b"word " * 8_000_000
    assert await _failure("a.txt", data, ParseLimits(memory=120_000_000)) is ParseFailure.MEMORY_LIMIT


async def test_parse_cancelled_leaves_no_process() -> None:
    task = asyncio.create_task(Parser().parse("a.md", b"- a\n" * 2_000_000))
    await asyncio.sleep(0.3)
    children = _children()
    assert children
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not children & _children()


async def test_parse_gives_the_child_none_of_our_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACET_SECRET_FOR_TEST", "canary")
    task = asyncio.create_task(Parser().parse("a.md", b"- a\n" * 500_000))
    await asyncio.sleep(0.3)
    environments = [_environment(pid) for pid in _children()]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert environments
    assert all(b"canary" not in environment for environment in environments)


def _environment(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()


def _children() -> set[int]:
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == os.getpid() and b"placet.knowledge.parse_worker" in line:
                found.add(int(entry.name))
    return found
