"""Every error of the gateway leaves as `application/problem+json`."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from placet.contracts.errors import ErrorCode, PlacetError
from services.gateway.domain.problems import MEDIA_TYPE, Problem, of_status, problem

_MAX_ERRORS = 20
_MAX_FIELD_CHARS = 100


def response(document: Problem, headers: dict[str, str] | None = None) -> Response:
    return Response(document.body, document.status, {**document.headers, **(headers or {})}, MEDIA_TYPE)


async def answer_problem(error: PlacetError, scope: Scope, receive: Receive, send: Send) -> None:
    """For the steps of the edge, which no exception handler stands behind."""
    await response(problem(error))(scope, receive, send)


async def _on_placet_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, PlacetError):
        raise error
    return response(problem(error))


async def _on_validation_error(_: Request, error: Exception) -> Response:
    """Field errors without the offending input: it may be secret, or large."""
    if not isinstance(error, RequestValidationError):
        raise error
    problems = [
        {"field": _field(item.get("loc", ())), "problem": str(item.get("msg", ""))[:_MAX_FIELD_CHARS]}
        for item in error.errors()[:_MAX_ERRORS]
    ]
    refused = PlacetError(ErrorCode.INVALID_REQUEST, "The request does not fit its schema.", errors=problems)
    return response(problem(refused))


def _field(location: tuple[object, ...] | list[object]) -> str:
    return ".".join(str(part)[:_MAX_FIELD_CHARS] for part in location)


async def _on_http_error(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    allow = {name: value for name, value in (error.headers or {}).items() if name.lower() == "allow"}
    return response(of_status(error.status_code), allow)


def install(app: FastAPI) -> None:
    app.add_exception_handler(PlacetError, _on_placet_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
