"""A person as the directory knows them: the facts that every decision reads anew (I1)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

MAX_NAMES = 64


class Person(BaseModel):
    """One directory entry. `clearance` runs from 0 (none) to 10; `active` false means dismissed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,64}$")
    tenant: str = Field(pattern=r"^[A-Za-z0-9_\-]{1,64}$")
    name: str = Field(default="", max_length=200)
    active: bool = True
    roles: tuple[str, ...] = Field(default=(), max_length=MAX_NAMES)
    teams: tuple[str, ...] = Field(default=(), max_length=MAX_NAMES)
    clearance: int = Field(default=0, ge=0, le=10)


class PersonChange(BaseModel):
    """What `PUT /api/directory/users/{id}` may set; everything else of the entry stays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    active: bool
    roles: tuple[str, ...] = Field(max_length=MAX_NAMES)
    teams: tuple[str, ...] = Field(max_length=MAX_NAMES)
    clearance: int = Field(ge=0, le=10)
