"""What the business tools accept. Strict and closed: a wrong type or an unknown field is refused, not repaired."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from placet.packs.business.money import Amount
from placet.packs.business.sql_guard import MAX_SQL_CHARS

Entity = Literal["orders", "refunds", "shipments", "customers", "tickets"]
# "medium" is the other common word for the same thing.
Priority = Annotated[
    Literal["low", "normal", "high", "urgent"], BeforeValidator(lambda word: "normal" if word == "medium" else word)
]


def _storable(value: str) -> str:
    """PostgreSQL cannot store U+0000, and a text of blanks says nothing."""
    if "\x00" in value:
        raise ValueError("must not contain U+0000")
    if not value.strip():
        raise ValueError("must not be blank")
    return value


_CLEAN = AfterValidator(_storable)
Id = Annotated[str, Field(min_length=1, max_length=64), _CLEAN]
Line = Annotated[str, Field(min_length=1, max_length=200), _CLEAN]
Reason = Annotated[str, Field(min_length=1, max_length=500), _CLEAN]
Body = Annotated[str, Field(min_length=1, max_length=4000), _CLEAN]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class QueryBusinessData(Arguments):
    entity: Entity = Field(description="Which kind of record to list.")
    order_id: Id | None = Field(default=None, description="Only records of this order.")
    customer_id: Id | None = Field(default=None, description="Only records of this customer.")
    limit: int = Field(default=20, ge=1, le=100, description="Records per page.")
    cursor: str | None = Field(default=None, max_length=500, description="`next` of the page before.")

    @model_validator(mode="after")
    def _tickets_stand_alone(self) -> Self:
        if self.entity == "tickets" and (self.order_id or self.customer_id):
            raise ValueError("tickets cannot be filtered by order_id or customer_id")
        return self


class CreateTicket(Arguments):
    title: Line
    priority: Priority = "normal"
    team: Annotated[str, Field(min_length=1, max_length=64), _CLEAN] = Field(description="The team that gets it.")
    description: Body


class AddOrderNote(Arguments):
    order_id: Id
    note: Annotated[str, Field(min_length=1, max_length=2000), _CLEAN]


class RefundPayment(Arguments):
    order_id: Id
    amount: Amount
    reason: Reason


class CancelRefund(Arguments):
    order_id: Id
    refund_id: Id
    reason: Reason


class CancelOrder(Arguments):
    order_id: Id
    reason: Reason


class ChangeOrder(Arguments):
    order_id: Id
    item: Line | None = Field(default=None, description="What is delivered instead.")
    address: Annotated[str, Field(min_length=1, max_length=500), _CLEAN] | None = Field(
        default=None, description="Where it is delivered instead."
    )

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.item is None and self.address is None:
            raise ValueError("name at least one of item, address")
        return self

    def changes(self) -> dict[str, str]:
        """The fields to change, by argument name."""
        return {name: value for name, value in (("item", self.item), ("address", self.address)) if value is not None}


class SendMessage(Arguments):
    customer_id: Id
    text: Body


class RequestApproval(Arguments):
    subject: Line
    details: Body


class RunReadonlySql(Arguments):
    sql: Annotated[str, Field(min_length=1, max_length=MAX_SQL_CHARS), _CLEAN] = Field(
        description=(
            "One SELECT over orders, refunds, shipments, customers, tickets. No WITH, UNION or sub-statements that "
            "write; common aggregates only. At most 200 rows come back."
        )
    )
