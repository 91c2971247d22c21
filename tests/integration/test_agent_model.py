"""The real model path, against an OpenAI-compatible HTTP server of this test: streams, tools, failures."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.agent.adapters.models.chat import LangChainModel
from services.agent.adapters.models.choose import choose_model
from services.agent.errors import ModelUnavailableError
from services.agent.ports import ComposePrompt, PlanPrompt, ToldCall
from services.agent.settings import Settings
from tests.integration.agent_fakes import descriptor


class Endpoint:
    """Answers requests by `script`, one entry each, the last one again and again; remembers what was asked."""

    def __init__(self) -> None:
        self.script: list[str] = ["ok"]
        self.asked: list[dict[str, Any]] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body)
                kind = endpoint.script.pop(0) if len(endpoint.script) > 1 else endpoint.script[0]
                endpoint.answer(self, kind, body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, request: BaseHTTPRequestHandler, kind: str, body: dict[str, Any]) -> None:
        if kind == "rate_limit_120":
            self._json(request, 429, {"error": {"message": "slow down"}}, {"retry-after": "120"})
        elif kind.isdigit():
            self._json(request, int(kind), {"error": {"message": "boom"}}, {})
        elif kind == "hang":
            time.sleep(2)
        elif body.get("stream"):
            self._stream(request, cut=kind == "cut")
        else:
            self._json(request, 200, self._completion(kind, body), {})

    def _completion(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        arguments = {"malformed": '{"order_id": 7,,', "length": "{}"}.get(
            kind, '{"order_id":"A1","amount":5,"reason":"r"}'
        )
        call = {"id": "c1", "type": "function", "function": {"name": "refund_payment", "arguments": arguments}}
        message = (
            {"role": "assistant", "content": None, "tool_calls": [call]} if body.get("tools") else {"content": "hi"}
        )
        finish = "length" if kind == "length" else "tool_calls"
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42},
        }  # fmt: skip

    def _stream(self, request: BaseHTTPRequestHandler, *, cut: bool) -> None:
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.send_header("connection", "close")
        request.end_headers()
        deltas: list[tuple[dict[str, Any], str | None]] = [
            ({"content": "It is "}, None),
            ({"content": "650 [1]."}, None),
        ]
        for delta, finish in deltas if cut else [*deltas, ({}, "stop")]:
            self._send(request, {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
        if cut:
            return
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        self._send(request, {"choices": [], "usage": usage})
        request.wfile.write(b"data: [DONE]\n\n")

    @staticmethod
    def _send(request: BaseHTTPRequestHandler, part: dict[str, Any]) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "stub", **part}
        request.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        request.wfile.flush()

    @staticmethod
    def _json(request: BaseHTTPRequestHandler, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        payload = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(payload)))
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(payload)


@pytest.fixture(scope="module")
def server() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()


@pytest.fixture
def endpoint(server: Endpoint) -> Endpoint:
    server.script, server.asked = ["ok"], []
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


async def test_stream_cut_in_the_middle_is_no_answer(model: LangChainModel, endpoint: Endpoint) -> None:
    endpoint.script = ["cut"]
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
