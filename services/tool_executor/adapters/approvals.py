"""The approval service, over RPC."""

from __future__ import annotations

from placet.contracts.approvals import ProposalReply, ProposeAction
from placet.contracts.proposals import ProposalView
from placet.messaging.rpc import RpcClient


class RpcApprovals:
    """Implements `Approvals`. Raises the approval service's own `PlacetError`."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    async def propose(self, command: ProposeAction) -> ProposalView:
        reply = await self._rpc.call("approval", "propose", command, ProposalReply, tenant=command.origin.tenant)
        return reply.proposal
