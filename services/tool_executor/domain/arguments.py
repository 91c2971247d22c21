"""Arguments as they come from a model or a caller: untrusted, stripped of identity, checked against the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from placet.contracts.errors import ErrorCode, PlacetError, validation_problems
from placet.contracts.tools import IDENTITY_FIELDS
from placet.toolkit import ToolSpec

_MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class Stripped:
    """What is left of the arguments, and the names of the identity fields that were in them (I2)."""

    arguments: dict[str, Any]
    removed: tuple[str, ...]


def strip_identity(arguments: dict[str, Any]) -> Stripped:
    """Remove identity fields at every depth: who acts is told by the grant alone."""
    removed: list[str] = []
    return Stripped(_strip(arguments, "", removed, 0), tuple(sorted(removed)))


def _strip(value: Any, path: str, removed: list[str], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise PlacetError(ErrorCode.INVALID_ARGUMENTS, "The arguments are nested too deeply.")
    if isinstance(value, list):
        return [_strip(item, path, removed, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for name, item in value.items():
        if name.lower() in IDENTITY_FIELDS:
            removed.append(f"{path}{name}")
        else:
            kept[name] = _strip(item, f"{path}{name}.", removed, depth + 1)
    return kept


def parse(spec: ToolSpec, arguments: dict[str, Any]) -> BaseModel:
    """The validated arguments. Raises `PlacetError(invalid_arguments)` naming the fields, without their values."""
    try:
        return spec.args.model_validate(arguments)
    except ValidationError as error:
        problems = validation_problems(error)
        raise PlacetError(
            ErrorCode.INVALID_ARGUMENTS, "The arguments do not fit the tool's schema.", errors=problems
        ) from error
