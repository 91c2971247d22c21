"""What every refund of these tests has in common."""

from __future__ import annotations

REFUND = "refund_payment"


REASON = "arrived broken"
