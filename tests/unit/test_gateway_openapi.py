"""The OpenAPI document, made without connecting to anything."""

from __future__ import annotations

import json

from services.gateway.openapi import document as openapi

CALLS = {
    ("post", "/api/chat"),
    ("post", "/api/runs"),
    ("get", "/api/runs/{run_id}"),
    ("get", "/api/runs/{run_id}/events"),
    ("post", "/api/runs/{run_id}/cancel"),
    ("get", "/api/conversations/{conversation_id}/memory"),
    ("delete", "/api/conversations/{conversation_id}/memory"),
    ("get", "/api/tools"),
    ("post", "/api/tools/{name}/calls"),
    ("get", "/api/tools/document-versions/{document_id}"),
    ("get", "/api/search"),
    ("get", "/api/documents"),
    ("get", "/api/documents/{document_id}"),
    ("post", "/api/documents"),
    ("post", "/api/index/rebuilds"),
    ("get", "/api/index/rebuilds/{rebuild_id}"),
    ("get", "/api/documents/{document_id}/source"),
    ("put", "/api/documents/{document_id}/acl"),
    ("post", "/api/documents/{document_id}/withdrawal"),
    ("post", "/api/documents/{document_id}/publish-proposals"),
    ("post", "/api/publish-proposals/{proposal_id}/decisions"),
    ("get", "/api/proposals"),
    ("get", "/api/proposals/{proposal_id}"),
    ("get", "/api/proposals/{proposal_id}/events"),
    ("post", "/api/proposals/{proposal_id}/decisions"),
    ("post", "/api/effects/{key}/settle"),
    ("get", "/api/directory/users/{user_id}"),
    ("put", "/api/directory/users/{user_id}"),
    ("get", "/api/audit/events"),
}


def test_openapi_describes_every_call_and_no_other() -> None:
    document = openapi()
    assert {(method, path) for path, calls in document["paths"].items() for method in calls} == CALLS


def test_openapi_every_call_needs_a_token_and_may_answer_with_a_problem() -> None:
    document = openapi()
    assert document["security"] == [{"token": []}]
    for calls in document["paths"].values():
        for call in calls.values():
            problem = call["responses"]["default"]["content"]["application/problem+json"]
            assert problem["schema"] == {"$ref": "#/components/schemas/Problem"}


def test_openapi_answers_that_are_no_json_say_what_they_are() -> None:
    paths = openapi()["paths"]
    expected = {
        "/api/documents/{document_id}/source": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
        "/api/runs/{run_id}/events": {"text/event-stream": {"schema": {"type": "string"}}},
    }
    assert {path: paths[path]["get"]["responses"]["200"]["content"] for path in expected} == expected


def test_openapi_made_twice_is_the_same_document() -> None:
    assert json.dumps(openapi()) == json.dumps(openapi())


def test_openapi_bodies_refuse_unknown_fields() -> None:
    schemas = openapi()["components"]["schemas"]
    for name in ("Question", "ToolArguments", "Decision", "PublishDecision", "Settlement", "PersonBody"):
        assert schemas[name]["additionalProperties"] is False
