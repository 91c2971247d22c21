"""Writes the PDF and the DOCX of the demo world, byte for byte the same each time.

    python seeds/build_documents.py

The files are checked in; run this after changing the texts below. Needs python-docx only.
"""

from __future__ import annotations

import io
import zipfile
from datetime import datetime
from pathlib import Path

import docx

HERE = Path(__file__).parent / "knowledge" / "acme"
LATIN, CHINESE = "F1", "F2"

# Per page: its bookmark, then (font size, line).
EXPENSE_POLICY = (
    (
        "费用报销制度",
        (
            (18, "费用报销制度"),
            (11, "客户招待费上限为每人每餐 200 元，须注明客户姓名与事由。"),
            (11, "报销单须在费用发生后 30 天内提交，逾期不予受理。"),
            (11, "单笔超过 3,000 元的采购须事先取得财务审批。"),
            (11, "手机话费补贴为每月 80 元。"),
        ),
    ),
    (
        "Expense policy",
        (
            (18, "Expense policy"),
            (11, "Client entertainment is limited to CNY 200 per person and meal; name the client and the purpose."),
            (11, "Expense claims are submitted within 30 days of the expense; later claims are not accepted."),
            (11, "A single purchase above CNY 3,000 needs the approval of finance beforehand."),
            (11, "The mobile phone allowance is CNY 80 per month."),
        ),
    ),
)


def main() -> None:
    (HERE / "expense-policy.pdf").write_bytes(expense_policy())
    (HERE / "refund-handbook.docx").write_bytes(refund_handbook())


def expense_policy() -> bytes:
    """A PDF of plain objects: Helvetica for English, the standard (not embedded) song face for Chinese."""
    count = len(EXPENSE_POLICY)
    first_page, first_mark = 6, 6 + 2 * count
    pages = " ".join(f"{first_page + 2 * index} 0 R" for index in range(count))
    objects = [
        f"<< /Type /Catalog /Pages 2 0 R /Outlines {first_mark} 0 R >>",
        f"<< /Type /Pages /Kids [{pages}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
        "<< /Type /Font /Subtype /Type0 /BaseFont /STSong-Light /Encoding /UniGB-UCS2-H /DescendantFonts [5 0 R] >>",
        "<< /Type /Font /Subtype /CIDFontType0 /BaseFont /STSong-Light"
        " /CIDSystemInfo << /Registry (Adobe) /Ordering (GB1) /Supplement 2 >> /DW 1000 >>",
    ]
    for index, (_, lines) in enumerate(EXPENSE_POLICY):
        content = _content(lines)
        fonts = f"<< /{LATIN} 3 0 R /{CHINESE} 4 0 R >>"
        objects.append(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842]"
            f" /Resources << /Font {fonts} >> /Contents {first_page + 2 * index + 1} 0 R >>"
        )
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    objects.append(f"<< /Type /Outlines /First {first_mark + 1} 0 R /Last {first_mark + count} 0 R /Count {count} >>")
    for index, (title, _) in enumerate(EXPENSE_POLICY):
        siblings = f" /Next {first_mark + index + 2} 0 R" if index + 1 < count else ""
        siblings += f" /Prev {first_mark + index} 0 R" if index else ""
        target = f"[{first_page + 2 * index} 0 R /Fit]"
        objects.append(f"<< /Title <{_utf16(title, mark=True)}> /Parent {first_mark} 0 R /Dest {target}{siblings} >>")
    return _file(objects)


def _content(lines: tuple[tuple[int, str], ...]) -> str:
    parts: list[str] = []
    top = 780
    for size, line in lines:
        wide = not line.isascii()
        shown = f"<{_utf16(line)}>" if wide else f"({line})"
        parts.append(f"BT /{CHINESE if wide else LATIN} {size} Tf 60 {top} Td {shown} Tj ET")
        top -= 2 * size + 6
    return "\n".join(parts)


def _utf16(text: str, *, mark: bool = False) -> str:
    return (("\ufeff" if mark else "") + text).encode("utf-16-be").hex().upper()


def _file(objects: list[str]) -> bytes:
    out = bytearray(b"%PDF-1.7\n")
    offsets: list[int] = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode("ascii")
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode("ascii")
    out += b"".join(f"{offset:010d} 00000 n \n".encode("ascii") for offset in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode("ascii")
    return bytes(out)


def refund_handbook() -> bytes:
    document = docx.Document()
    document.core_properties.author = "Alice"
    document.core_properties.created = document.core_properties.modified = datetime(2026, 9, 1)
    document.add_heading("退款手册", 1)
    document.add_heading("退款期限", 2)
    document.add_paragraph("客户可在签收后 14 天内申请退款；商品破损的，期限为 30 天。")
    document.add_paragraph("退款不得超过订单实付金额，且须由财务审批人批准。")
    document.add_heading("升级处理", 2)
    document.add_paragraph("金额超过 500 元的退款须由两名财务审批人批准。")
    document.add_heading("Refund handbook", 1)
    document.add_heading("Refund period", 2)
    document.add_paragraph(
        "Customers may ask for a refund within 14 days of delivery; for broken goods the period is 30 days."
    )
    document.add_paragraph("A refund never exceeds what was paid and is approved by a finance approver.")
    document.add_heading("Escalation", 2)
    document.add_paragraph("Refunds above CNY 500 are approved by two finance approvers.")
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Reason", "Proof"
    for reason, proof in (("broken on arrival", "one photo"), ("wrong item", "photo of the label"), ("late", "none")):
        cells = table.add_row().cells
        cells[0].text, cells[1].text = reason, proof
    buffer = io.BytesIO()
    document.save(buffer)
    return _without_dates(buffer.getvalue())


def _without_dates(archive: bytes) -> bytes:
    """The same archive with one date for all entries."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            entry = zipfile.ZipInfo(name, date_time=(2026, 9, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            target.writestr(entry, source.read(name))
    return out.getvalue()


if __name__ == "__main__":
    main()
