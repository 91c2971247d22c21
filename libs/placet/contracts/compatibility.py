"""What v1 of a message may become: it may gain optional fields, and nothing else.

Compared are JSON Schemas. Texts (titles, descriptions) are free; a lost or renamed field, a field newly required or no
longer required, another type, other limits or other choices are not: an older process would not understand a newer
one, or the other way round, and stored events would not read back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]

_TEXTS = frozenset({"title", "description", "examples", "$defs"})
_MAX_DEPTH = 32


def problems(old: Schema, new: Schema) -> list[str]:
    """Why `new` may not replace `old` under the same version; empty when it may."""
    return _Comparison(old.get("$defs", {}), new.get("$defs", {})).values(old, new, "", 0)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The definitions that both sides' references point to."""

    old: Schema
    new: Schema

    def values(self, old: Any, new: Any, path: str, depth: int) -> list[str]:
        if depth > _MAX_DEPTH:
            return []
        old, new = _resolved(old, self.old), _resolved(new, self.new)
        if isinstance(old, dict) and isinstance(new, dict):
            return self._fields(old, new, path, depth) + self._rules(old, new, path, depth)
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            return [
                problem
                for index, (one, other) in enumerate(zip(old, new, strict=True))
                for problem in self.values(one, other, f"{path}/{index}", depth + 1)
            ]
        return [] if old == new else [f"{path or '.'}: changed from {old!r} to {new!r}"]

    def _fields(self, old: Schema, new: Schema, path: str, depth: int) -> list[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        needed_before, needed_after = set(old.get("required", ())), set(new.get("required", ()))
        found: list[str] = []
        for name, schema in before.items():
            here = f"{path}/{name}"
            if name not in after:
                found.append(f"{here}: the field was lost")
                continue
            if (name in needed_before) != (name in needed_after):
                found.append(f"{here}: the field is {'newly' if name in needed_after else 'no longer'} required")
            found += self.values(schema, after[name], here, depth + 1)
        gained = sorted(needed_after - before.keys())
        return found + [f"{path}/{name}: a new field must be optional" for name in gained]

    def _rules(self, old: Schema, new: Schema, path: str, depth: int) -> list[str]:
        found: list[str] = []
        for key in sorted((old.keys() | new.keys()) - _TEXTS - {"properties", "required"}):
            if key in old and key in new:
                found += self.values(old[key], new[key], f"{path}/{key}", depth + 1)
            else:
                found.append(f"{path or '.'}: `{key}` was {'added' if key in new else 'removed'}")
        return found


def _resolved(schema: Any, definitions: Schema) -> Any:
    while isinstance(schema, dict) and "$ref" in schema:
        target = definitions[str(schema["$ref"]).rsplit("/", 1)[-1]]
        schema = target | {key: value for key, value in schema.items() if key != "$ref"}
    return schema
