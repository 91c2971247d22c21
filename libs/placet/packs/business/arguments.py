"""What the business tools accept. Strict and closed: a wrong type or an unknown field is refused, not repaired."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from placet.packs.business.money import Amount
from placet.packs.business.sql_guard import MAX_SQL_CHARS

Entity = Literal["orders", "refunds", "shipments", "customers", "tickets"]
# "normal" and "medium" are both in use and are kept as written.
Priority = Literal["low", "normal", "medium", "high", "urgent", "critical"]


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
    def _customers_have_no_order(self) -> Self:
        if self.entity == "customers" and self.order_id is not None:
            raise ValueError("customers cannot be filtered by order_id; use entity orders to find the customer_id")
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


class CancelOrder(Arguments):
    order_id: Id
    reason: Reason


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
