"""An OpenAI-compatible HTTP server of the tests: streams, tool calls, and every way in which such a server fails."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# What a model answers to one request: text, or `[(tool, arguments as text)]`.
Said = str | list[tuple[str, str]]
Mind = Callable[[dict[str, Any]], Said]

WORDS = ("It is ", "650 [1].")


def refund_always(body: dict[str, Any]) -> Said:
    return [("refund_payment", '{"order_id":"A1","amount":5,"reason":"r"}')] if body.get("tools") else "".join(WORDS)


class Endpoint:
    """Answers by `mind`; `script` names how the next requests fail, its last entry again and again."""

    def __init__(self) -> None:
        self.reset()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body)
                kind = endpoint.script.pop(0) if len(endpoint.script) > 1 else endpoint.script[0]
                try:
                    endpoint._answer(self, kind, body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def reset(self, mind: Mind = refund_always) -> None:
        self.script: list[str] = ["ok"]
        self.asked: list[dict[str, Any]] = []
        self.mind = mind

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def _answer(self, request: BaseHTTPRequestHandler, kind: str, body: dict[str, Any]) -> None:
        if kind == "rate_limit_120":
            _json(request, 429, {"error": {"message": "slow down"}}, {"retry-after": "120"})
        elif kind.isdigit():
            _json(request, int(kind), {"error": {"message": "boom"}}, {})
        elif kind == "hang":
            time.sleep(2)
        elif kind == "html":
            _raw(request, 200, "text/html", b"<html>not what you asked for</html>")
        elif kind == "no_choices":
            _json(request, 200, {"id": "1", "object": "chat.completion", "choices": None}, {})
        elif body.get("stream"):
            self._stream(request, kind, body)
        else:
            _json(request, 200, self._completion(kind, body), {})

    def _completion(self, kind: str, body: dict[str, Any]) -> dict[str, Any]:
        said = [("refund_payment", '{"order_id": 7,,')] if kind == "malformed" else self.mind(body)
        message: dict[str, Any] = {"role": "assistant", "content": said if isinstance(said, str) else None}
        if not isinstance(said, str):
            message["tool_calls"] = [
                {"id": f"c{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                for i, (name, arguments) in enumerate(said)
            ]
        finish = "length" if kind == "length" else "stop" if isinstance(said, str) else "tool_calls"
        return {
            "id": "1", "object": "chat.completion", "created": 1, "model": "stub",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42},
        }  # fmt: skip

    def _stream(self, request: BaseHTTPRequestHandler, kind: str, body: dict[str, Any]) -> None:
        chunked = kind == "cut_chunk"
        request.send_response(200)
        request.send_header("content-type", "text/event-stream")
        request.send_header(*(("transfer-encoding", "chunked") if chunked else ("connection", "close")))
        request.end_headers()
        request.close_connection = True
        said = self.mind(body)
        text = said if isinstance(said, str) else json.dumps(said)
        for start in range(0, len(text), 512) if len(text) > 64 else (0,):
            _send(request, {"content": text[start : start + 512]} if len(text) > 64 else {"content": WORDS[0]}, chunked)
        if kind in ("cut", "cut_chunk"):
            return
        if kind == "garbage":
            request.wfile.write(b"data: {not json\n\n")
            return
        if len(text) <= 64:
            _send(request, {"content": text.removeprefix(WORDS[0])}, chunked)
        _send(request, {}, chunked, finish="stop")
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        _write(request, {"choices": [], "usage": usage}, chunked)
        request.wfile.write(b"data: [DONE]\n\n")


def _send(request: BaseHTTPRequestHandler, delta: dict[str, Any], chunked: bool, finish: str | None = None) -> None:
    _write(request, {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}, chunked)


def _write(request: BaseHTTPRequestHandler, part: dict[str, Any], chunked: bool) -> None:
    chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "stub", **part}
    line = b"data: " + json.dumps(chunk).encode() + b"\n\n"
    request.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n" if chunked else line)
    request.wfile.flush()


def _json(request: BaseHTTPRequestHandler, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
    _raw(request, status, "application/json", json.dumps(body).encode(), headers)


def _raw(
    request: BaseHTTPRequestHandler, status: int, kind: str, payload: bytes, headers: dict[str, str] | None = None
) -> None:
    request.send_response(status)
    request.send_header("content-type", kind)
    request.send_header("content-length", str(len(payload)))
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(payload)
