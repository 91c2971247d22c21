"""The rule of v1: a message may gain optional fields, and nothing else."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field

from placet.contracts.compatibility import problems
from placet.contracts.registry import COMMANDS, EVENTS


class Kind(StrEnum):
    ONE = "one"
    TWO = "two"


class Inner(BaseModel):
    id: str
    amount: int = 0


class Old(BaseModel):
    """As it was."""

    name: str
    kind: Kind = Kind.ONE
    inner: Inner
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    short: str = Field(default="", max_length=10)
    at: datetime | None = None


OLD = Old.model_json_schema()


def _changed(**fields: tuple[object, object]) -> list[str]:
    """Problems of `Old` with some fields declared anew."""
    namespace = {
        "__annotations__": {name: annotation for name, (annotation, _) in fields.items()},
        **{name: default for name, (_, default) in fields.items() if default is not ...},
    }
    return problems(OLD, type("New", (Old,), namespace).model_json_schema())


def test_message_unchanged_has_no_problem() -> None:
    assert problems(OLD, Old.model_json_schema()) == []


def test_message_with_other_words_has_no_problem() -> None:
    class Reworded(Old):
        """Described in another way."""

        name: str = Field(title="The name", description="What it is called")

    assert problems(OLD, Reworded.model_json_schema()) == []


def test_message_with_a_new_optional_field_has_no_problem() -> None:
    assert _changed(extra=(str | None, None)) == []


def test_message_with_a_new_optional_field_deep_inside_has_no_problem() -> None:
    class Grown(Inner):
        note: str = ""

    new = Old.model_json_schema()
    grown = Grown.model_json_schema()
    new["$defs"]["Inner"] = grown
    assert problems(OLD, new) == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"extra": (str, ...)}, "/extra: a new field must be optional"),
        ({"name": (str, "")}, "/name: the field is no longer required"),
        ({"short": (str, ...)}, "newly required"),
        ({"name": (int, ...)}, "/name/type: changed from 'string' to 'integer'"),
        ({"short": (str, Field(default="", max_length=5))}, "/short/maxLength: changed from 10 to 5"),
        ({"short": (str, "")}, "/short: `maxLength` was removed"),
        ({"short": (str, Field(default="other", max_length=10))}, "/short/default: changed"),
        ({"kind": (Literal["one"], "one")}, "/kind"),
        ({"maybe": (Inner, ...)}, "/maybe"),
        ({"many": (tuple[str, ...], ())}, "/many/items"),
        ({"at": (str | None, None)}, "/at/anyOf/0: `format` was removed"),
    ],
)
def test_message_changed_otherwise_is_named(fields: dict[str, tuple[object, object]], complaint: str) -> None:
    assert any(complaint in problem for problem in _changed(**fields)), _changed(**fields)


def test_message_with_a_lost_field_is_named_wherever_it_lay() -> None:
    new = Old.model_json_schema()
    del new["properties"]["kind"]
    del new["$defs"]["Inner"]["properties"]["amount"]
    found = problems(OLD, new)
    assert "/kind: the field was lost" in found
    assert "/inner/amount: the field was lost" in found
    assert "/maybe/anyOf/0/amount: the field was lost" in found
    assert "/many/items/amount: the field was lost" in found


def test_message_with_another_choice_is_named() -> None:
    new = Old.model_json_schema()
    new["$defs"]["Kind"]["enum"] = ["one", "two", "three"]
    assert problems(OLD, new) == ["/kind/enum: changed from ['one', 'two'] to ['one', 'two', 'three']"]


@pytest.mark.parametrize("spec", [*COMMANDS, *EVENTS], ids=lambda spec: f"{spec.owner}.{spec.name}")
def test_message_of_the_registry_without_one_of_its_fields_is_named(spec: object) -> None:
    """The rule sees every field of every real message, however it is nested or referenced."""
    model: type[BaseModel] = spec.model  # type: ignore[attr-defined]
    old = model.model_json_schema()
    for name in old["properties"]:
        new = model.model_json_schema()
        del new["properties"][name]
        assert f"/{name}: the field was lost" in problems(old, new)
