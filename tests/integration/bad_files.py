"""Files that harm careless readers, made when they are needed."""

from __future__ import annotations

import io
import zipfile
import zlib

import docx
from fpdf import FPDF

_ENTITIES = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def zip_bomb(expanded: int = 250_000_000, declared: int | None = None) -> bytes:
    """A DOCX whose main part has `expanded` bytes; its directory says so, or says `declared`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w", force_zip64=False) as part:
            for _ in range(expanded // 1_000_000):
                part.write(b" " * 1_000_000)
    data = out.getvalue()
    return data if declared is None else data.replace(expanded.to_bytes(4, "little"), declared.to_bytes(4, "little"))


def entity_bomb() -> bytes:
    """A DOCX of a few kilobytes whose text is ten thousand million characters, if one believes its entities."""
    whole, out = io.BytesIO(), io.BytesIO()
    docx.Document().save(whole)
    text = (
        f'<?xml version="1.0"?><!DOCTYPE w [<!ENTITY e0 "bomb">{_ENTITIES}]><w:document xmlns:w="{_WORD}">'
        "<w:body><w:p><w:r><w:t>&e9;</w:t></w:r></w:p></w:body></w:document>"
    )
    with zipfile.ZipFile(whole) as good, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for entry in good.infolist():
            archive.writestr(entry, text if entry.filename == "word/document.xml" else good.read(entry))
    return out.getvalue()


def long_pdf(pages: int) -> bytes:
    """A PDF of so many pages, all showing the same line."""
    line = b"BT /F1 12 Tf 72 720 Td (One page of many.) Tj ET"
    kids = b" ".join(b"%d 0 R" % (number + 5) for number in range(pages))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/MediaBox[0 0 612 792]/Kids[%b]>>" % (pages, kids),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(line), line),
        *[b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 3 0 R>>>>>>"] * pages,
    ]
    return _pdf(objects)


def stream_bomb(expanded: int = 400_000_000) -> bytes:
    """A PDF of a few hundred kilobytes, whose one page is so many bytes of drawing."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * 1_000_000) for _ in range(expanded // 1_000_000)) + packer.flush()
    return _pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/MediaBox[0 0 612 792]/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/Contents 4 0 R>>",
            b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(packed), packed),
        ]
    )


def _pdf(objects: list[bytes]) -> bytes:
    out, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj%b endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(out))
    return bytes(out) + b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1) + table + trailer


def encrypted_pdf() -> bytes:
    pdf = FPDF()
    pdf.add_page()
    pdf.set_font("Helvetica")
    pdf.cell(text="secret")
    pdf.set_encryption(owner_password="owner", user_password="user")
    return bytes(pdf.output())
