"""Problem documents (RFC 9457)."""

from __future__ import annotations

import orjson
import pytest

from placet.contracts.errors import RULES, ErrorCode, PlacetError, not_found
from services.gateway.domain.problems import of_status, problem


@pytest.mark.spec("T4")
@pytest.mark.parametrize("code", list(ErrorCode))
def test_problem_of_every_code_has_its_status_and_the_code(code: ErrorCode) -> None:
    made = problem(PlacetError(code, "why"))
    document = orjson.loads(made.body)
    assert made.status == document["status"] == RULES[code].status
    assert document["code"] == code.value
    assert document["type"] == f"urn:placet:problem:{code.value}"
    assert document["title"]
    assert document["detail"]


@pytest.mark.spec("I3")
def test_problem_not_found_is_the_same_bytes_whoever_raised_it() -> None:
    other = PlacetError(ErrorCode.NOT_FOUND, "run run-77 belongs to bob", run_id="run-77")
    assert problem(other) == problem(not_found()) == of_status(404)


def test_problem_internal_says_nothing_about_the_inside() -> None:
    body = problem(PlacetError(ErrorCode.INTERNAL, "password=hunter2", trace="x")).body
    assert b"hunter2" not in body
    assert b"trace" not in body


def test_problem_details_are_members_but_never_replace_the_standard_ones() -> None:
    error = PlacetError(ErrorCode.INVALID_REQUEST, "bad", errors=[{"field": "a"}], status=200, type="about:blank")
    document = orjson.loads(problem(error).body)
    assert document["errors"] == [{"field": "a"}]
    assert (document["status"], document["type"]) == (422, "urn:placet:problem:invalid_request")


def test_problem_unauthenticated_asks_for_a_bearer_token() -> None:
    assert problem(PlacetError(ErrorCode.UNAUTHENTICATED, "x")).headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("code", [code for code in ErrorCode if RULES[code].retryable])
def test_problem_that_may_pass_says_when_to_try_again(code: ErrorCode) -> None:
    assert problem(PlacetError(code, "x")).headers["Retry-After"] == "1"


@pytest.mark.parametrize(("status", "code"), [(405, "invalid_request"), (413, "payload_too_large"), (502, "internal")])
def test_problem_of_an_http_status_keeps_the_status(status: int, code: str) -> None:
    made = of_status(status)
    assert made.status == status
    assert orjson.loads(made.body)["code"] == code
