"""What the knowledge room raises: the project's error with the cases callers distinguish as types."""

from __future__ import annotations

from enum import StrEnum

from placet.contracts.errors import NOT_FOUND_MESSAGE, ErrorCode, PlacetError


class NotFound(PlacetError):
    """Absent, or not readable by this actor: the caller cannot tell which (I3)."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_FOUND, NOT_FOUND_MESSAGE)


class LockVersionConflict(PlacetError):
    """The document changed since the caller read it; nothing was written."""

    def __init__(self, expected: int, current: int) -> None:
        message = "The document has changed since it was read."
        super().__init__(ErrorCode.CONFLICT, message, expected=expected, current=current)


class NotPublishable(PlacetError):
    """This version is the published one already, or its file has not been read (or cannot be)."""

    def __init__(self, version: int, status: str) -> None:
        super().__init__(ErrorCode.CONFLICT, f"Version {version} is {status}.", version=version, status=status)


class ParseFailure(StrEnum):
    """Why a file could not be read. Stable: stored on documents and shown to people."""

    EMPTY_FILE = "empty_file"
    NO_TEXT = "no_text"
    UNSUPPORTED_TYPE = "unsupported_type"
    TYPE_MISMATCH = "type_mismatch"
    BAD_ENCODING = "bad_encoding"
    ENCRYPTED = "encrypted"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    TOO_MANY_PAGES = "too_many_pages"
    EXPANDS_TOO_MUCH = "expands_too_much"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    CRASHED = "crashed"


class ParseError(PlacetError):
    """The file was refused; `reason` says why. The process that tried is gone, nothing else is affected."""

    def __init__(self, reason: ParseFailure, message: str) -> None:
        super().__init__(ErrorCode.INVALID_ARGUMENTS, message, reason=reason.value)
        self.reason = reason


def too_large(max_bytes: int) -> ParseError:
    return ParseError(ParseFailure.TOO_LARGE, f"Files may have {max_bytes // 1_000_000} MB.")
