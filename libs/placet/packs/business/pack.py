"""The business pack: its tools, and the one connection pool they share."""

from __future__ import annotations

from collections.abc import Sequence

from placet.contracts.errors import PlacetError
from placet.packs.business.access import Store
from placet.packs.business.amendment import ChangeOrderTool
from placet.packs.business.cancellation import CancelOrderTool
from placet.packs.business.messages import SendMessageTool
from placet.packs.business.notes import AddOrderNoteTool
from placet.packs.business.queries import QueryBusinessDataTool
from placet.packs.business.refund_cancellation import CancelRefundTool
from placet.packs.business.refunds import RefundPaymentTool
from placet.packs.business.sql import RunReadonlySqlTool
from placet.packs.business.tickets import CreateTicketTool, RequestApprovalTool
from placet.toolkit import PackEnvironment, ToolSpec


class BusinessPack:
    """Tools on the schema `business`. Without `open` the declarations are there and every call is refused."""

    name = "business"

    def __init__(self) -> None:
        self._store = Store()
        kinds = (
            QueryBusinessDataTool,
            CreateTicketTool,
            AddOrderNoteTool,
            RefundPaymentTool,
            CancelRefundTool,
            CancelOrderTool,
            ChangeOrderTool,
            SendMessageTool,
            RequestApprovalTool,
            RunReadonlySqlTool,
        )
        self._tools = tuple(kind(self._store).spec() for kind in kinds)

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def open(self, environment: PackEnvironment) -> None:
        """Connections are made at the first call, so a database that is down does not keep the pack from opening."""
        self._store.open(environment.database_url, environment.readonly_database_url, environment.settings)

    async def ready(self) -> bool:
        try:
            await self._store.database.ping()
        except PlacetError:
            return False
        return True

    async def close(self) -> None:
        await self._store.close()
