"""Ids of evidence: a passage is `doc-001:v3:chunk-08`, a whole version `doc-001:v3`. What may be read is a version."""

from __future__ import annotations

import re

_ID = re.compile(r"(?P<document>.+?):v(?P<version>[1-9][0-9]{0,8})(?::chunk-[0-9]+)?", re.DOTALL)


def version_id(document_id: str, version: int) -> str:
    return f"{document_id}:v{version}"


def version_of(evidence_id: str) -> tuple[str, int] | None:
    """The document and the version that a piece of evidence belongs to; None for what is no such id."""
    found = _ID.fullmatch(evidence_id)
    return (found["document"], int(found["version"])) if found else None
