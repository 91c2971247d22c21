"""The OpenAPI document: what FastAPI derives, with problems and the bearer token described as they are."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from services.gateway.domain.problems import MEDIA_TYPE

_METHODS = ("get", "post", "put", "delete")
_HEADERS = {
    "X-Request-ID": "Taken over when harmless, made when absent, echoed, and carried to the last audit record.",
    "Idempotency-Key": "The same key with the same body gets the same answer; with another body, 409.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an app; kept for the next time, as FastAPI's own is."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
        for path in document["paths"].values():
            for method in _METHODS:
                if method in path:
                    _finish(path[method], method)
        app.openapi_schema = document
    return app.openapi_schema


def _finish(operation: dict[str, Any], method: str) -> None:
    problem = operation["responses"]["default"]
    problem["content"] = {MEDIA_TYPE: next(iter(problem["content"].values()))}
    names = ["X-Request-ID"] + (["Idempotency-Key"] if method == "post" else [])
    operation.setdefault("parameters", []).extend(
        {
            "name": name,
            "in": "header",
            "required": False,
            "schema": {"type": "string"},
            "description": _HEADERS[name],
        }
        for name in names
    )
