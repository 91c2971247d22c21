"""The executor's assessment of edited arguments, over RPC."""

from __future__ import annotations

from typing import Any

from placet.contracts.execution import AssessAction, PacketReply
from placet.contracts.proposals import ActionPacket, Origin
from placet.messaging.rpc import RpcClient


class ExecutorAssessor:
    """Implements `Assessor`. Raises the executor's own `PlacetError`."""

    def __init__(self, rpc: RpcClient) -> None:
        self._rpc = rpc

    async def assess(self, origin: Origin, tool: str, arguments: dict[str, Any]) -> ActionPacket:
        command = AssessAction(origin=origin, tool=tool, args=arguments)
        reply = await self._rpc.call("tool-executor", "assess-action", command, PacketReply, tenant=origin.tenant)
        return reply.packet
