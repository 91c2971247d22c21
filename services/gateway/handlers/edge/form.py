"""The multipart form of an upload, read while it arrives: fields are kept, the file goes to a temporary file."""

from __future__ import annotations

import hashlib
from tempfile import SpooledTemporaryFile

import orjson
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from services.gateway.errors import bad_form, too_large
from services.gateway.handlers.exchange import ReceivedFile

FORM = "multipart/form-data"
FILE_FIELD = "file"
# What boundaries, headers and fields may add to the file.
FORM_EXTRA_BYTES = 65_536
_IN_MEMORY_BYTES = 1_048_576
_MAX_PARTS = 16
_MAX_FIELD_BYTES = 4_096


def boundary_of(content_type: str) -> bytes | None:
    """The boundary, when this is a multipart form."""
    kind, options = parse_options_header(content_type)
    return options.get(b"boundary") if kind == FORM.encode() else None


class FormReader:
    """Takes a form's bytes as they come. `finish` gives what it held; `close` lets go of the file."""

    def __init__(self, boundary: bytes, max_file_bytes: int) -> None:
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )
        self._max_file_bytes = max_file_bytes
        self._file = SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 (closed by `close`)
        self._digest = hashlib.sha256()
        self._size = 0
        self._filename: str | None = None
        self._fields: dict[str, str] = {}
        self._parts = 0
        self._ended = False
        self._begin_part()

    def feed(self, data: bytes) -> None:
        """Raises `PlacetError`: `payload_too_large`, `invalid_request`."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise bad_form("The body is not a multipart form.") from error

    def finish(self) -> ReceivedFile:
        """Raises `PlacetError(invalid_request)` for a form that broke off, or that holds no file."""
        if not self._ended:
            raise bad_form("The multipart form is not complete.")
        if self._filename is None:
            raise bad_form("The form has no file.", field=FILE_FIELD)
        self._file.seek(0)
        return ReceivedFile(self._fields, self._filename, self._size, self._digest.hexdigest(), self._file)

    def close(self) -> None:
        self._file.close()

    def _begin_part(self) -> None:
        self._headers: dict[bytes, bytes] = {}
        self._header_name, self._header_value = b"", b""
        self._name, self._value, self._is_file = "", bytearray(), False

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise bad_form("The form has too many parts.")
        self._begin_part()

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._header_name.lower()] = self._header_value
        self._header_name, self._header_value = b"", b""

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._is_file = self._name == FILE_FIELD
        if self._name in self._fields or (self._is_file and self._filename is not None):
            raise bad_form("A field of the form comes twice.", field=self._name[:100])
        if self._is_file:
            if b"filename" not in options:
                raise bad_form("The file has no name.", field=FILE_FIELD)
            self._filename = options[b"filename"].decode("utf-8", "replace")

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        piece = data[start:end]
        if not self._is_file:
            self._value += piece
            if len(self._value) > _MAX_FIELD_BYTES:
                raise bad_form("A field of the form is too long.", field=self._name[:100])
            return
        self._size += len(piece)
        if self._size > self._max_file_bytes:
            raise too_large(self._max_file_bytes)
        self._digest.update(piece)
        self._file.write(piece)

    def _on_part_end(self) -> None:
        if self._is_file:
            return
        try:
            self._fields[self._name] = self._value.decode()
        except UnicodeDecodeError as error:
            raise bad_form("A field of the form is not UTF-8.", field=self._name[:100]) from error

    def _on_end(self) -> None:
        self._ended = True


def fingerprinted(received: ReceivedFile) -> bytes:
    """What the form says, whatever boundary it was sent with: for comparing two attempts of one upload."""
    return orjson.dumps([received.fields, received.filename, received.sha256], option=orjson.OPT_SORT_KEYS)
