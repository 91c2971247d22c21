"""Answers as JSON, and how they are documented."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import Request
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.responses import Response

from services.gateway.domain.json_body import parse

JSON = "application/json"


def json_answer(content: BaseModel | Mapping[str, Any], status: int = 200, **headers: str) -> Response:
    body = content.model_dump_json().encode() if isinstance(content, BaseModel) else orjson.dumps(content)
    return Response(body, status, headers or None, JSON)


def page(items: list[Any] | tuple[Any, ...], following: str | None = None) -> Response:
    """A list as every list of the API looks."""
    dumped = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in items]
    return json_answer({"items": dumped, "next": following})


def documented(answers: Mapping[int, type[BaseModel] | None]) -> dict[int | str, dict[str, Any]]:
    """`responses=` of a route: these, and a problem document for everything else."""
    described: dict[int | str, dict[str, Any]] = {"default": {"description": "A problem (RFC 9457).", "model": Problem}}
    for status, model in answers.items():
        described[status] = {"description": _DESCRIPTIONS[status]} | ({"model": model} if model else {})
    return described


_DESCRIPTIONS = {
    200: "Done.",
    201: "Made.",
    202: "Accepted; not done yet.",
    204: "Done; nothing to say.",
}


class FieldProblem(BaseModel):
    field: str
    problem: str


class Problem(BaseModel):
    """RFC 9457. `code` is the stable part. The request id is in the `X-Request-ID` header."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FieldProblem] | None = None


class _StrictRequest(Request):
    async def json(self) -> Any:
        return parse(await self.body())


class StrictRoute(APIRoute):
    """A route whose JSON bodies are parsed strictly."""

    def get_route_handler(self) -> Any:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly
