"""The real model path, against an OpenAI-compatible HTTP server of this test: streams, tools, failures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from placet.contracts.tools import Route
from services.agent.adapters.models.chat import LangChainModel
from services.agent.adapters.models.choose import choose_model
from services.agent.domain.asking import ComposePrompt, Condensed, Guess, PlanPrompt, ToldCall
from services.agent.errors import ModelUnavailableError
from services.agent.settings import Settings
from tests.integration.agent_fakes import descriptor
from tests.integration.model_endpoint import Endpoint


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def endpoint(server: Endpoint) -> Endpoint:
    server.reset()
    return server


@pytest.fixture
def model(endpoint: Endpoint) -> LangChainModel:
    settings = Settings(
        nats_url="nats://unused",
        database_url="postgresql://unused",
        grant_public_file=Path("unused"),
        approval_public_file=Path("unused"),
        agent_model_base_url=endpoint.url,
        agent_model="stub",
        agent_model_timeout_s=5,
    )
    chosen, name = choose_model(settings)
    assert name == "stub"
    return chosen


TOLD = ToldCall("call-1", 1, "search_knowledge", {"query": "x", "k": 3}, "<data>nothing</data>")
PLAN = PlanPrompt("Refund A1", "Refund A1", (descriptor("refund_payment"),), (TOLD,))
COMPOSE = ComposePrompt("How much?", "How much?", "<evidence>650</evidence>")


async def spoken(model: LangChainModel, timeout_s: float = 5) -> tuple[str, int]:
    text, tokens = "", 0
    async for piece in model.compose(COMPOSE, timeout_s=timeout_s):
        text, tokens = text + piece.text, tokens + piece.tokens
    return text, tokens


@pytest.mark.spec("U1", "T2")
async def test_real_model_asked_to_plan_is_shown_the_offered_tools_and_the_history(
    model: LangChainModel, endpoint: Endpoint
) -> None:
    planned = await model.plan(PLAN, timeout_s=5)
    assert [(call.tool, call.args) for call in planned.calls] == [
        ("refund_payment", {"order_id": "A1", "amount": 5, "reason": "r"})
    ]
    assert planned.tokens == 42
    (asked,) = endpoint.asked
    assert [tool["function"]["name"] for tool in asked["tools"]] == ["refund_payment"]
    assert [message["role"] for message in asked["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.spec("U1", "U5")
async def test_real_model_asked_for_an_answer_streams_it_and_counts_tokens(
    model: LangChainModel, endpoint: Endpoint
) -> None:
    assert await spoken(model) == ("It is 650 [1].", 5)
    assert endpoint.asked[0]["stream_options"] == {"include_usage": True}
    assert "tools" not in endpoint.asked[0]


async def test_real_model_that_fails_for_a_moment_is_asked_again(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.script = ["500", "429", "ok"]
    assert (await spoken(model))[0] == "It is 650 [1]."
    assert len(endpoint.asked) == 3


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("script", "attempts", "reason"),
    [
        ("rate_limit_120", 1, "http_429"),
        ("400", 1, "http_400"),
        ("401", 1, "http_401"),
        ("500", 3, "http_500"),
        ("html", 3, "ValueError"),
        ("no_choices", 3, "TypeError"),
    ],
)
async def test_real_model_that_keeps_failing_is_given_up_soon(
    model: LangChainModel, endpoint: Endpoint, script: str, attempts: int, reason: str
) -> None:
    endpoint.script = [script]
    started = time.monotonic()
    with pytest.raises(ModelUnavailableError) as raised:
        await model.plan(PLAN, timeout_s=5)
    assert (raised.value.reason, len(endpoint.asked)) == (reason, attempts)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("cut", ["cut", "cut_chunk", "garbage"])
async def test_stream_cut_in_the_middle_is_no_answer(model: LangChainModel, endpoint: Endpoint, cut: str) -> None:
    endpoint.script = [cut]
    with pytest.raises(ModelUnavailableError) as raised:
        await spoken(model)
    assert raised.value.reason == "cut_stream"


async def test_model_that_hangs_is_given_up_at_the_time_limit(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.script = ["hang"]
    started = time.monotonic()
    with pytest.raises(ModelUnavailableError):
        await spoken(model, timeout_s=0.3)
    assert time.monotonic() - started < 5


async def test_arguments_that_are_no_json_are_planned_as_malformed(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.script = ["malformed"]
    (call,) = (await model.plan(PLAN, timeout_s=5)).calls
    assert (call.tool, call.args, call.malformed) == ("refund_payment", {}, True)


async def test_plan_that_was_cut_off_by_its_length_is_not_executed(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.script = ["length"]
    with pytest.raises(ModelUnavailableError) as raised:
        await model.plan(PLAN, timeout_s=5)
    assert raised.value.reason == "length"


@pytest.mark.spec("U1", "T2")
async def test_question_that_no_rule_fits_is_judged_by_the_model_in_structured_output(
    model: LangChainModel, endpoint: Endpoint
) -> None:
    endpoint.reset(lambda body: [("RouteChoice", '{"route": "agentic_rag"}')])
    guess = await model.route("年假和病假哪个更长", timeout_s=5)
    assert (guess.route, guess.tokens) == (Route.AGENTIC_RAG, 42)
    (asked,) = endpoint.asked
    assert asked["tool_choice"]["function"]["name"] == "RouteChoice"
    assert "年假和病假哪个更长" in asked["messages"][-1]["content"]


@pytest.mark.spec("U1", "T2")
@pytest.mark.parametrize("arguments", ['{"route": "http"}', '{"route": "refuse"}', "{}", "{,"])
async def test_route_that_no_question_can_take_is_not_taken_from_a_model(
    model: LangChainModel, endpoint: Endpoint, arguments: str
) -> None:
    endpoint.reset(lambda body: [("RouteChoice", arguments)])
    assert (await model.route("?", timeout_s=5)).route is None


@pytest.mark.spec("U1")
@pytest.mark.parametrize("script", ["500", "rate_limit_120", "html", "no_choices"])
async def test_model_that_fails_to_judge_costs_one_request_and_nothing_else(
    model: LangChainModel, endpoint: Endpoint, script: str
) -> None:
    endpoint.script = [script]
    assert await model.route("?", timeout_s=5) == Guess()
    assert await model.condense("?", timeout_s=5) == Condensed()
    assert len(endpoint.asked) == 2


@pytest.mark.spec("M1")
async def test_model_is_shown_only_what_was_asked_when_it_condenses(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.reset(lambda body: " lodging in Shanghai and Beijing ")
    condensed = await model.condense("上海住宿上限是多少？那北京呢", timeout_s=5)
    assert condensed.text == "lodging in Shanghai and Beijing"
    assert [message["role"] for message in endpoint.asked[0]["messages"]] == ["system", "user"]
