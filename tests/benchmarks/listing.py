"""A page of 50 pending proposals among a thousand, 200 thousand and a million: the cost must not grow with the number.

The projection's table is filled directly. Each page is asked for through the service's own adapter, for an approver
who sees everything, for a requester with a few of their own, and for somebody who sees nothing; the first page and
one in the middle. Sizes are measured in turns, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from datetime import UTC, datetime

from sqlalchemy import text

from placet.contracts.proposals import ProposalStatus
from placet.storage import OWNER, Database
from placet.testkit.builders import proposed
from services.approval.adapters.listing import PostgresListing
from services.approval.domain.state import Recorded, fold
from services.approval.ports import ProposalQuery
from tests.benchmarks.processes import world
from tests.integration.governance_rig import GovernanceRig

SIZES = (1_000, 200_000, 1_000_000)
ROUNDS = 100
VIEWERS = {
    "approver of all": ("dave", ("employee", "finance_approver")),
    "requester of few": ("alice", ("employee", "customer_support")),
    "sees nothing": ("bob", ("employee", "rnd")),
}

# A hundred pending ones are Alice's, whatever the size; one in ten is pending, and only those have a view to show.
_FILL = text("""
    INSERT INTO proposals.listing
        (tenant, proposal_id, created_at, status, tool, requester, approver_roles, approved_by, policy_revision,
         last_seq, view)
    SELECT CAST(:tenant AS text), 'prop-' || lpad(n::text, 8, '0'), now() - n * interval '1 second',
           CASE WHEN n % 10 = 0 THEN 'pending' ELSE 'completed' END, 'refund_payment',
           CASE WHEN n % (:number / 100) = 0 THEN 'alice' ELSE 'user-' || n % 97 END,
           ARRAY['finance_approver'], '{}', 'sha256:x', n, CASE WHEN n % 10 = 0 THEN CAST(:view AS jsonb) ELSE '{}' END
    FROM generate_series(1, :number) AS n
""")


async def main() -> None:
    async with world() as rig:
        await _fill(rig)
        listing = PostgresListing(Database.open(rig.postgres.url("placet_approval")))
        taken: dict[tuple[str, str, int], list[float]] = defaultdict(list)
        for number in range(ROUNDS):
            for size in SIZES[:: 1 if number % 2 else -1]:
                for name, (viewer, roles) in VIEWERS.items():
                    cursor = None
                    for page in ("first page", "second page"):
                        query = ProposalQuery(_tenant(size), viewer, roles, ProposalStatus.PENDING, None, 50, cursor)
                        started = time.perf_counter()
                        rows = await listing.page(query)
                        taken[(name, page, size)].append(time.perf_counter() - started)
                        cursor = rows[-1].cursor if rows else None
    _print(taken)


def _tenant(size: int) -> str:
    return f"t{size}"


async def _fill(rig: GovernanceRig) -> None:
    state = fold([Recorded(1, "proposed", datetime.now(UTC), proposed())])
    assert state is not None
    view = state.view().model_dump_json()
    owner = rig.postgres.database(OWNER)
    for size in SIZES:
        async with owner.engine.begin() as connection:
            await connection.execute(text("SET LOCAL statement_timeout = 0"))
            await connection.execute(_FILL, {"tenant": _tenant(size), "number": size, "view": view})
    async with owner.engine.connect() as connection:
        await connection.execution_options(isolation_level="AUTOCOMMIT")
        await connection.execute(text("SET statement_timeout = 0"))
        await connection.execute(text("VACUUM ANALYZE proposals.listing"))


def _print(taken: dict[tuple[str, str, int], list[float]]) -> None:
    print(f"\n{'p50 ms of a page of 50 pending':44}" + "".join(f"{size:>12,}" for size in SIZES) + "   ratio 200k : 1k")
    for name in VIEWERS:
        for page in ("first page", "second page"):
            p50 = [statistics.median(taken[(name, page, size)]) * 1e3 for size in SIZES]
            print(f"{name + ', ' + page:44}" + "".join(f"{ms:>12.2f}" for ms in p50) + f"{p50[1] / p50[0]:>18.2f}")
