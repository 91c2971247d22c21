"""Lists that come in pages, as one asynchronous iterator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from placet.client.transport import Transport

M = TypeVar("M", bound=BaseModel)


async def pages(
    transport: Transport, path: str, model: type[M], params: Mapping[str, Any], *, cursor: str = "cursor"
) -> AsyncIterator[M]:
    """Every item of a list, page after page. `cursor` names the parameter that takes the previous page's `next`."""
    position: Any = params.get(cursor)
    while True:
        body = (await transport.get(path, {**params, cursor: position})).body
        for item in body["items"]:
            yield model.model_validate(item)
        following = body.get("next")
        # A server that hands out the same cursor again would keep us here for ever.
        if following is None or str(following) == str(position):
            return
        position = following
