"""Embedders by name, and the one behind an OpenAI-compatible endpoint, against a server of the test."""

from __future__ import annotations

import base64
import json
import math
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge.embedders import (
    USE_MODEL,
    NoEmbedder,
    OpenAIEmbedder,
    UseEmbedder,
    create_embedder,
    embedder_named,
    embedder_of,
)


class Endpoint:
    """`POST /v1/embeddings`: the length of a text as its vector, in either of the two encodings of the protocol."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.status = 200
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: Any) -> None:
                return

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                endpoint.asked.append(body | {"key": self.headers["authorization"], "path": self.path})
                payload = json.dumps(endpoint.answer(body)).encode()
                self.send_response(endpoint.status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.status != 200:
            return {"error": {"message": "no"}}
        vectors = [[float(len(text)), 1.0, 0.0] for text in body["input"]]
        shown = [_packed(vector) if body.get("encoding_format") == "base64" else vector for vector in vectors]
        data = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(shown)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return {"object": "list", "model": body["model"], "data": data, "usage": usage}


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


@pytest.mark.spec("K2")
async def test_openai_embedder_sends_text_and_gives_vectors_of_unit_length_in_order(endpoint: Endpoint) -> None:
    embedder = OpenAIEmbedder("small", base_url=endpoint.url, api_key="k-1")
    vectors = await embedder.embed(["a", "四个汉字"])
    (asked,) = endpoint.asked
    assert (asked["path"], asked["model"], asked["input"]) == ("/v1/embeddings", "small", ["a", "四个汉字"])
    assert asked["key"] == "Bearer k-1"
    assert embedder.model == "openai:small"
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1.0, 1.0])
    assert [vector[0] / vector[1] for vector in vectors] == pytest.approx([1.0, 4.0])
    assert await embedder.embed([]) == []


@pytest.mark.parametrize("status", [401, 429, 500])
async def test_openai_embedder_whose_server_refuses_is_a_dependency_that_is_away(
    endpoint: Endpoint, status: int
) -> None:
    endpoint.status = status
    with pytest.raises(PlacetError) as caught:
        await OpenAIEmbedder("small", base_url=endpoint.url, api_key="k").embed(["a"])
    assert caught.value.code is ErrorCode.DEPENDENCY_UNAVAILABLE
    assert len(endpoint.asked) == 1, "who asks again is the caller, by one rule for all"


def test_embedder_is_chosen_by_the_settings_of_the_pack() -> None:
    assert embedder_of({}).model == USE_MODEL
    assert isinstance(embedder_of({"embedder": "none"}), NoEmbedder)
    chosen = embedder_of({"embedder": "openai", "embedder_model": "m", "embedder_api_key": "k"})
    assert chosen.model == "openai:m"
    with pytest.raises(ValueError, match="api key"):
        create_embedder("openai")
    with pytest.raises(ValueError, match="no embedder"):
        create_embedder("word2vec")


def test_embedder_of_a_model_by_its_name_is_none_where_it_cannot_be_asked() -> None:
    """So that search goes on with the model that serves, whatever this process was started with."""
    assert isinstance(embedder_named(USE_MODEL, {}), UseEmbedder)
    named = embedder_named("openai:m", {"embedder_api_key": "k"})
    assert named is not None
    assert named.model == "openai:m"
    assert embedder_named("openai:m", {}) is None
    assert embedder_named("unheard-of", {"embedder_api_key": "k"}) is None
