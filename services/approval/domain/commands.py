"""What people and the program want of a proposal, with the facts that a decision needs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from placet.contracts.errors import ErrorCode
from placet.contracts.policy import Eligibility
from placet.contracts.proposals import Acknowledgements, ActionPacket, FinishReason


@dataclass(frozen=True, slots=True)
class Decider:
    """A person, with their rights as policy judged them just now, and how their call names what they decide."""

    id: str
    roles: tuple[str, ...]
    eligibility: Eligibility
    decision_id: str | None = None


@dataclass(frozen=True, slots=True)
class Approve:
    decider: Decider
    digest: str | None
    acknowledgements: Acknowledgements | None


@dataclass(frozen=True, slots=True)
class Edit:
    """`packet` is the fresh assessment of the new arguments, with its new idempotency key."""

    decider: Decider
    digest: str | None
    acknowledgements: Acknowledgements | None
    packet: ActionPacket
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class Reject:
    decider: Decider
    message: str | None


@dataclass(frozen=True, slots=True)
class Respond:
    decider: Decider
    message: str | None


@dataclass(frozen=True, slots=True)
class Repeat:
    """The very decision that stands already: whoever made it has lost the answer."""

    decider: Decider


@dataclass(frozen=True, slots=True)
class View:
    """Somebody who sees the proposal has opened the whole packet. `decider` is judged as if to approve it."""

    decider: Decider


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The requester's own run has no use for it any more; where `others_wait`, it stays."""

    requester: str
    others_wait: bool = False


@dataclass(frozen=True, slots=True)
class Expire:
    """The timer fired."""


@dataclass(frozen=True, slots=True)
class Regrade:
    """The action was looked at again: `packet` as it stands now, or `refused` with the code and words why it cannot.

    `still_eligible` are those who approved and still may, by the rights of now. With `only_changes`, a look that finds
    everything as it was is not written down.
    """

    trigger: str
    packet: ActionPacket | None
    refused: tuple[ErrorCode, str] | None
    still_eligible: frozenset[str]
    only_changes: bool = False


@dataclass(frozen=True, slots=True)
class Conclude:
    """The executor's outcome arrived on the ledger."""

    reason: FinishReason
    outcome: dict[str, Any]


Command = Approve | Edit | Reject | Respond | Repeat | View | Withdraw | Expire | Regrade | Conclude


@dataclass(frozen=True, slots=True)
class Moment:
    """The clock, handed in."""

    now: datetime
