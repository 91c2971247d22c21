"""The demo company asked through its executor by everybody: answers, audit events and logs hold nothing unreadable."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from pydantic import BaseModel

from placet.contracts.errors import PlacetError
from placet.contracts.execution import (
    Citations,
    DocumentPage,
    DocumentView,
    GetDocument,
    ListDocuments,
    ReadSource,
    ResolveCitations,
    SourceSlice,
)
from placet.messaging.rpc import RpcClient
from placet.observability.context import RequestContext, bound, new_id
from tests.integration.governance_rig import GovernanceRig

# What stands in a document and nowhere else, and who reads it.
SECRETS = {
    "CANARY-7f3a-LAYOFF": {"frank"},
    "28,000": {"heidi"},
    "蓝鲸": {"bob"},
    "Blue Whale": {"bob"},
    "the trade fair": {"dave", "erin"},
}
PEOPLE = ("alice", "bob", "carol", "dave", "mike", "auditor", "nobody-of-this-name")
QUESTIONS = (
    "positions that will be cut",
    "裁员计划",
    "monthly salary of an engineer",
    "when are releases",
    "远程办公补贴",
)
DOCUMENTS = ("doc-layoff-plan", "doc-hr-file", "doc-rnd-handbook", "doc-travel-exceptions")


async def _everything(rig: GovernanceRig, person: str, request_id: str) -> str:
    """All that a person is told who asks for all of it, refusals included."""
    told: list[str] = []
    for question in QUESTIONS:
        call = rig.execute(person, "search_knowledge", {"query": question, "k": 20}, request_id=request_id)
        told.append(await _said(call))
    chunks = tuple(f"{document}:v1:chunk-{number:02d}" for document in DOCUMENTS for number in range(1, 8))
    grant = rig.grant(person)
    commands: list[tuple[str, BaseModel, type[BaseModel]]] = [
        ("list-documents", ListDocuments(grant=grant, limit=200), DocumentPage),
        ("resolve-citations", ResolveCitations(grant=grant, chunk_ids=chunks), Citations),
        *(("get-document", GetDocument(grant=grant, document_id=each), DocumentView) for each in DOCUMENTS),
        *(("read-source", ReadSource(grant=grant, document_id=each), SourceSlice) for each in DOCUMENTS),
    ]
    client = RpcClient(await rig.nats.bus("gateway"))
    for name, command, reply in commands:
        with bound(RequestContext(request_id, "acme", person)):
            told.append(await _said(client.call("tool-executor", name, command, reply, tenant="acme")))
    return "\n".join(told)


async def _said(call: Any) -> str:
    try:
        answer = (await call).model_dump(mode="json")
    except PlacetError as error:
        return repr((error.code, error.message, error.details))
    if "data" in answer and isinstance(answer["data"], str):
        answer["data"] = base64.b64decode(answer["data"]).decode("utf-8", "replace")
    return json.dumps(answer, ensure_ascii=False)


@pytest.mark.spec("R2", "R3", "I3", "T11", "W6")
@pytest.mark.parametrize("person", PEOPLE)
async def test_nothing_unreadable_is_in_what_a_person_is_told_nor_in_its_record(
    governance: GovernanceRig, capsys: pytest.CaptureFixture[str], person: str
) -> None:
    capsys.readouterr()
    request_id = new_id("req")
    told = await _everything(governance, person, request_id)
    record = (await governance.audit(request_id=request_id, limit=500)).model_dump_json()
    logged = capsys.readouterr()
    for secret, readers in SECRETS.items():
        assert secret not in record, "a record names documents and never holds their text"
        assert secret not in logged.out + logged.err
        if person not in readers:
            assert secret not in told, secret
    assert "access-denied" in record or "tool-decided" in record


@pytest.mark.spec("R2")
@pytest.mark.parametrize(("person", "secret"), [("bob", "Blue Whale"), ("dave", "the trade fair")])
async def test_secret_of_a_department_is_told_to_its_members(
    governance: GovernanceRig, person: str, secret: str
) -> None:
    """The same questions: else the test above would hold for a search that finds nothing."""
    assert secret in await _everything(governance, person, new_id("req"))
