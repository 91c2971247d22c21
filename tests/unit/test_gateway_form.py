"""The form of an upload, byte by byte and in one piece."""

from __future__ import annotations

import hashlib

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from services.gateway.handlers.edge.form import FormReader, boundary_of, fingerprinted

DATA = bytes(range(256)) * 8
FIELD = b'--xyz\r\nContent-Disposition: form-data; name="title"\r\n\r\n\xe5\xb7\xae\xe6\x97\x85\r\n'
FILE = b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n' + DATA + b"\r\n"
END = b"--xyz--\r\n"


def _code(content: bytes, limit: int = 10_000) -> ErrorCode:
    form = FormReader(b"xyz", limit)
    try:
        form.feed(content)
        form.finish()
    except PlacetError as error:
        return error.code
    finally:
        form.close()
    raise AssertionError("this form was taken")


@pytest.mark.parametrize("step", [1, 7, 100_000])
@pytest.mark.parametrize("content", [FIELD + FILE + END, FILE + FIELD + END], ids=["field-first", "file-first"])
def test_form_is_the_same_however_it_arrives(content: bytes, step: int) -> None:
    form = FormReader(b"xyz", len(DATA))
    for start in range(0, len(content), step):
        form.feed(content[start : start + step])
    received = form.finish()
    assert (received.fields, received.filename, received.size) == ({"title": "差旅"}, "a.bin", len(DATA))
    assert (received.content.read(), received.sha256) == (DATA, hashlib.sha256(DATA).hexdigest())
    form.close()


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", ErrorCode.INVALID_REQUEST),
        (b"no form at all", ErrorCode.INVALID_REQUEST),
        (FIELD + END, ErrorCode.INVALID_REQUEST),
        (FIELD + FILE, ErrorCode.INVALID_REQUEST),
        (FIELD + FIELD + FILE + END, ErrorCode.INVALID_REQUEST),
        (FILE + FILE + END, ErrorCode.INVALID_REQUEST),
        (FIELD.replace(b"\xe5\xb7\xae", b"\xff\xfe\xfd") + FILE + END, ErrorCode.INVALID_REQUEST),
        (FIELD.replace(b"\xe5\xb7\xae", b"x" * 4_097) + FILE + END, ErrorCode.INVALID_REQUEST),
        (FILE.replace(b'; filename="a.bin"', b"") + END, ErrorCode.INVALID_REQUEST),
        (b"".join(FIELD.replace(b"title", b"t%d" % n) for n in range(17)) + FILE + END, ErrorCode.INVALID_REQUEST),
        (FIELD.replace(b"\r\n\r\n", b"\r\nX: " + b"y" * 9_000 + b"\r\n\r\n") + FILE + END, ErrorCode.INVALID_REQUEST),
    ],
    ids=range(11),
)
def test_form_that_is_none_of_ours_is_refused(content: bytes, code: ErrorCode) -> None:
    assert _code(content) is code


def test_form_with_a_file_over_the_limit_is_refused_at_the_byte_too_much() -> None:
    assert _code(FIELD + FILE + END, limit=len(DATA) - 1) is ErrorCode.PAYLOAD_TOO_LARGE
    form = FormReader(b"xyz", 10)
    with pytest.raises(PlacetError):
        form.feed(FILE[: -len(DATA) + 20])
    form.close()


def test_form_sent_again_with_another_boundary_has_the_same_fingerprint() -> None:
    prints = []
    for boundary in (b"xyz", b"abc"):
        form = FormReader(boundary, len(DATA))
        form.feed((FIELD + FILE + END).replace(b"--xyz", b"--" + boundary))
        prints.append(fingerprinted(form.finish()))
        form.close()
    assert prints[0] == prints[1]


def test_boundary_is_that_of_a_form_only() -> None:
    assert boundary_of("multipart/form-data; boundary=xyz") == b"xyz"
    assert boundary_of("multipart/mixed; boundary=xyz") is None
    assert boundary_of("application/json") is None
    assert boundary_of("") is None
