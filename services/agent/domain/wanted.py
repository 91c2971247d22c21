"""What a model wrote as a tool call, looked at before it becomes one: anything can stand in there."""

from __future__ import annotations

from typing import Any

from placet.contracts.digests import canonical
from placet.contracts.errors import PlacetError

# Under these names the content of evidence stands beside its id. The wall around checkpoints knows them, too.
BODY_KEYS = frozenset({"text", "snippet", "content", "body"})

_NAME_CHARS = 200
_ARGS_BYTES = 32_768
_DEPTH = 8


def tool_name(written: Any) -> str:
    """The name, as the executor can be asked for it. What no tool can be called is asked for, and refused, too."""
    name = written if isinstance(written, str) else ""
    return name.encode("utf-8", "replace").decode()[:_NAME_CHARS] or "unnamed"


def problem_of(args: Any) -> str | None:
    """Why these arguments can be neither kept nor sent, or None. Whether they fit the tool is the executor's to say."""
    if not isinstance(args, dict):
        return "The arguments were not a JSON object."
    if not _shallow(args, _DEPTH):
        return "The arguments were nested too deep."
    if _quotes_evidence(args):
        return "The arguments carry a piece of evidence: name its id instead."
    try:
        size = len(canonical(args))
    except PlacetError:
        return "The arguments hold a value that is not exact JSON."
    return "The arguments were too large." if size > _ARGS_BYTES else None


def _quotes_evidence(value: Any) -> bool:
    """Evidence as it is found is no argument of anything: it would be kept with the call, beyond the right to read."""
    if isinstance(value, dict) and "chunk_id" in value and not BODY_KEYS.isdisjoint(value):
        return True
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_quotes_evidence(item) for item in inner)


def _shallow(value: Any, depth: int) -> bool:
    if depth < 0:
        return False
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(_shallow(item, depth - 1) for item in inner)
