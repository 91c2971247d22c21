"""Text of an answer that may no longer be shown: it quotes what its reader may not read today (R4, U4)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from services.gateway.domain.runs import RunSeen

_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_SENTENCES = {
    True: "这个回答引用了您目前无权查看的资料，因此不再显示。请重新提问。",
    False: "This answer quotes a source that you may not read now, so it is no longer shown. Please ask again.",
}


def instead_of(answer: str) -> str:
    """What is said in place of an answer, in its language; nothing in place of nothing."""
    return _SENTENCES[bool(_CHINESE.search(answer))] if answer else answer


def without_text(seen: RunSeen) -> RunSeen:
    """The event with its place in the sequence, and no text."""
    return with_data(seen, text="")


def with_data(seen: RunSeen, **changes: Any) -> RunSeen:
    return replace(seen, event=seen.event.model_copy(update={"data": {**seen.event.data, **changes}}))
