"""The refund journey as tests use it: asked in a chat, approved by a finance approver, executed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from placet.client import ConflictError, PlacetClient
from placet.client.proposals import acknowledge


@dataclass(frozen=True, slots=True)
class Asked:
    """A refund that waits for a person."""

    run_id: str
    proposal_id: str


async def ask(requester: PlacetClient, order: str, amount: str) -> Asked:
    """Raises `AssertionError` when the agent proposes nothing."""
    chat = await requester.runs.chat(f"Please refund order {order}, {amount}, it arrived broken.")
    if chat.proposal is None:
        raise AssertionError(f"nothing was proposed: {chat.model_dump_json()}")
    return Asked(chat.run_id, chat.proposal.proposal_id)


async def approve(approver: PlacetClient, proposal_id: str) -> None:
    """Approve what is shown. A decision that took effect although its answer was lost is as good."""
    proposal = await approver.proposals.get(proposal_id)
    try:
        await approver.proposals.decide(
            proposal_id, "approve", digest=proposal.digest, acknowledgements=acknowledge(proposal)
        )
    except ConflictError as error:
        if error.code != "already_decided":
            raise


async def finished(requester: PlacetClient, asked: Asked, timeout_s: float = 60.0) -> dict[str, Any]:
    """The data of the run's last event."""
    return (await requester.runs.wait(asked.run_id, timeout_s=timeout_s)).data


async def refunds(reader: PlacetClient, order: str) -> list[float]:
    """The amounts refunded for an order, as the business data has them now."""
    call = await reader.tools.call("query_business_data", {"entity": "refunds", "order_id": order})
    return sorted(float(str(item["amount"])) for item in (call.result or {})["items"])
