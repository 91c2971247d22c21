"""One valid example of every message, made from its schema: what the golden payloads hold."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_TIME = "2026-11-30T12:00:00Z"


def example(model: type[BaseModel]) -> dict[str, Any]:
    """An instance with every field given, as JSON. The same for the same schema.

    Raises `pydantic.ValidationError` when a schema asks for more than can be made up here.
    """
    schema = model.model_json_schema()
    made = _value(schema, schema.get("$defs", {}), model.__name__)
    document: dict[str, Any] = model.model_validate(made).model_dump(mode="json")
    return document


def _value(schema: Schema, definitions: Schema, name: str) -> Any:
    if "$ref" in schema:
        return _value(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions, name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for choice in ("allOf", "anyOf", "oneOf"):
        if choice in schema:
            return _value(next(one for one in schema[choice] if one.get("type") != "null"), definitions, name)
    return _typed(schema, definitions, name)


def _typed(schema: Schema, definitions: Schema, name: str) -> Any:
    match schema.get("type"):
        case "object":
            return _object(schema, definitions)
        case "array":
            return [_value(schema.get("items", {}), definitions, name)]
        case "integer":
            return int(max(schema.get("minimum", 1), 1))
        case "number":
            return float(max(schema.get("minimum", 1), 1)) + 0.5
        case "boolean":
            return True
        case _:
            return _TIME if schema.get("format") == "date-time" else name.replace("_", "-")


def _object(schema: Schema, definitions: Schema) -> dict[str, Any]:
    if "properties" in schema:
        return {name: _value(field, definitions, name) for name, field in schema["properties"].items()}
    free = schema.get("additionalProperties")
    return {"key": _value(free if isinstance(free, dict) else {}, definitions, "value")}
