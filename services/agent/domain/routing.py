"""Which route a question takes (U1, T2): by rules, because a route limits what a model may even see.

The rules read only what the person wrote. Documents, tool results and the conversation's summary have no say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from placet.contracts.tools import Route
from services.agent.domain import signals
from services.agent.domain.extraction import customer_ids, document_id, order_ids


@dataclass(frozen=True, slots=True)
class Routing:
    """The route and the rule that chose it, which direct answers and the record need."""

    route: Route
    rule: str

    @property
    def undecided(self) -> bool:
        """No rule fitted: a model may be asked."""
        return self.rule == _NO_RULE

    @property
    def needs(self) -> str | None:
        """The tool without which the route makes no sense."""
        return _NEEDS.get(self.route)


_NO_RULE = "question"
_NEEDS = {Route.VERSION_TOOL: "read_document_version", Route.BUSINESS_QUERY: "query_business_data"}
# What a model may make of a question: routes that only look something up. One that may change something needs a word
# for that change in the question itself, so no model can talk a person into an action they never named.
GUESSABLE = (
    Route.DIRECT,
    Route.FIXED_RAG,
    Route.SUMMARY,
    Route.AGENTIC_RAG,
    Route.VERSION_TOOL,
    Route.BUSINESS_QUERY,
    Route.BUSINESS_ACTION,
)


def route_of(question: str) -> Routing:
    """The first rule that fits; a question about nothing in particular is looked up in the documents."""
    for rule, fits, route in _RULES:
        if fits(question):
            return Routing(route, rule)
    return Routing(Route.FIXED_RAG, _NO_RULE)


def guessed(question: str, guess: Route | None) -> Routing:
    """What becomes of a model's guess, where no rule fitted."""
    if guess not in GUESSABLE or (guess is Route.BUSINESS_ACTION and not _names_action(question)):
        return Routing(Route.FIXED_RAG, _NO_RULE)
    return Routing(guess, "model")


def confirmed(routing: Routing, offered: Collection[str]) -> Routing:
    """The route, if policy offers what it is for; else the question is one like any other."""
    if routing.needs is None or routing.needs in offered:
        return routing
    return Routing(Route.FIXED_RAG, "not_offered")


def _names_action(question: str) -> bool:
    return any(about.search(question) for about in signals.ACTIONS.values())


def _is_action(question: str) -> bool:
    return any(signals.is_request(question, about) for about in signals.ACTIONS.values())


def _is_manipulation(question: str) -> bool:
    if signals.MANIPULATION.search(question):
        return True
    return signals.UNAPPROVED.search(question) is not None and _is_action(question)


def _is_consent(question: str) -> bool:
    return signals.claims_consent(question) and not _is_action(question) and not question.rstrip().endswith(("?", "？"))


def _asks_for_version(question: str) -> bool:
    asked = signals.VERSION.search(question) is not None or document_id(question) is not None
    return asked and signals.READS_VERSION.search(question) is not None


def _is_query(question: str) -> bool:
    if signals.RECORD_QUESTION.search(question):
        return True
    return bool(order_ids(question) or customer_ids(question))


_RULES: tuple[tuple[str, Callable[[str], bool], Route], ...] = (
    ("manipulation", _is_manipulation, Route.REFUSE),
    ("greeting", lambda question: signals.GREETING.match(question) is not None, Route.DIRECT),
    ("action", _is_action, Route.BUSINESS_ACTION),
    ("consent", _is_consent, Route.DIRECT),
    ("version", _asks_for_version, Route.VERSION_TOOL),
    ("records", _is_query, Route.BUSINESS_QUERY),
    ("summary", lambda question: signals.SUMMARY.search(question) is not None, Route.SUMMARY),
    ("comparison", lambda question: signals.COMPARE.search(question) is not None, Route.AGENTIC_RAG),
)
