"""Text of others, as a model is shown it: fenced, marked with its origin, and unable to close its own fence.

The offline model reads the same fences, so both kinds of model are told the same things in the same form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from services.agent.domain.evidence import Evidence
from services.agent.domain.offline.extractive import Source

_QUESTION = re.compile(r"<question>\n(.*?)\n</question>", re.DOTALL)
_QUERY = re.compile(r"<search-query>\n(.*?)\n</search-query>", re.DOTALL)
_EVIDENCE = re.compile(
    r'<evidence n="(\d+)" document="([^"]*)" title="([^"]*)" vouched-for="(yes|no)">\n(.*?)\n</evidence>', re.DOTALL
)
_DATA = re.compile(r'<data origin="tool ([^"]*)">\n(.*?)\n</data>', re.DOTALL)


def _inert(text: str) -> str:
    """No angle bracket survives, so no text can open or close a fence."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _live(text: str) -> str:
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"').replace("&amp;", "&")


def _heading(piece: Evidence) -> str:
    return f"{piece.title} > {piece.section}" if piece.section else piece.title


def _quoted(text: str) -> str:
    return " ".join(_inert(text).replace('"', "&quot;").split())


def question(asked: str, query: str) -> str:
    """What the owner asked, and with what it is searched (references resolved)."""
    fenced = f"<question>\n{_inert(asked)}\n</question>"
    return fenced if query == asked else f"{fenced}\n<search-query>\n{_inert(query)}\n</search-query>"


def read_question(message: str) -> tuple[str, str]:
    asked = _QUESTION.search(message)
    found = _live(asked.group(1)) if asked else message
    query = _QUERY.search(message)
    return found, _live(query.group(1)) if query else found


def evidence(pieces: Sequence[Evidence]) -> str:
    """Numbered from 1, in the order given."""
    return "\n".join(
        f'<evidence n="{number}" document="{_quoted(piece.document_id)}" title="{_quoted(_heading(piece))}" '
        f'vouched-for="{"yes" if piece.trusted else "no"}">\n{_inert(piece.text)}\n</evidence>'
        for number, piece in enumerate(pieces, start=1)
    )


def read_evidence(message: str) -> list[Source]:
    return [
        Source(int(number), _live(title), _live(text), vouched == "yes", _live(document))
        for number, document, title, vouched, text in _EVIDENCE.findall(message)
    ]


def data(tool: str, content: dict[str, Any]) -> str:
    """A tool's answer as JSON."""
    return f'<data origin="tool {tool}">\n{_inert(json.dumps(content, ensure_ascii=False, default=str))}\n</data>'


def read_data(message: str) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for tool, text in _DATA.findall(message):
        content = json.loads(_live(text))
        if isinstance(content, dict):
            found.append((tool, content))
    return found
