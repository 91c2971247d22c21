"""Who may do what to a document: what is forbidden looks absent, and rights end at once."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from placet.observability.context import current
from tests.integration.document_house import DocumentHouse
from tests.integration.own_base import base_of

RND = ("employee", "rnd")


async def person_of(house: DocumentHouse, name: str, *roles: str, active: bool = True, clearance: int = 1) -> str:
    """Somebody of this test alone, or what becomes of them."""
    body = {"active": active, "roles": list(roles), "teams": [], "clearance": clearance}
    answer = await house.as_("directory_admin").put(f"/api/directory/users/{name}", json=body)
    assert answer.status_code == 200
    return name


async def every_call(client: httpx.AsyncClient, document_id: str) -> list[httpx.Response]:
    path = f"/api/documents/{document_id}"
    form = {"knowledge_base_id": "kb-policies", "title": "T", "document_id": document_id}
    return [
        await client.get(path),
        await client.get(f"{path}/source"),
        await client.get(f"{path}/source?version=1"),
        await client.put(f"{path}/acl", json={}),
        await client.post(f"{path}/withdrawal", json={}),
        await client.post(f"{path}/publish-proposals"),
        await client.get(f"/api/tools/document-versions/{document_id}"),
        await client.post("/api/documents", data=form, files={"file": ("a.md", b"text")}),
    ]


@contextmanager
def statements(house: DocumentHouse) -> Iterator[list[tuple[str, str]]]:
    """What the executor's own pool is asked meanwhile, by the request for whose sake."""
    found: list[tuple[str, str]] = []
    engine = house.governance.executor.database.engine.sync_engine

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        found.append((current().request_id, statement))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", note)


@pytest.mark.spec("I3", "T5")
async def test_document_forbidden_and_absent_are_one_answer_to_an_admin(document_house: DocumentHouse) -> None:
    """Carol administers documents, and does not read the board's."""
    client = document_house.as_("carol")
    forbidden = await every_call(client, "doc-layoff-plan")
    absent = await every_call(client, "doc-that-never-was")
    assert [answer.status_code for answer in forbidden] == [404] * len(forbidden)
    assert {answer.content for answer in (*forbidden, *absent)} == {forbidden[0].content}


@pytest.mark.spec("K4", "T5", "I3")
async def test_version_looks_absent_to_whoever_may_not_read_versions(document_house: DocumentHouse) -> None:
    paths = [f"/api/tools/document-versions/{one}" for one in ("doc-travel-v1", "doc-travel-v2", "doc-that-never-was")]
    for who in ("alice", "bob", "mike", "directory_admin"):
        answers = [await document_house.as_(who).get(path) for path in (*paths, f"{paths[0]}?version=1")]
        assert [answer.status_code for answer in answers] == [404] * len(answers)
        assert {answer.content for answer in answers} == {(await document_house.as_("carol").get(paths[2])).content}
    assert (await document_house.as_("carol").get(paths[0])).json()["status"] == "archived"


@pytest.mark.spec("A11", "I3")
async def test_publishing_is_refused_to_a_reader_and_tells_nothing_of_what_cannot_be_read(
    document_house: DocumentHouse,
) -> None:
    draft = (await document_house.upload("carol")).json()["document_id"]
    hidden = (draft, "doc-layoff-plan", "doc-travel-v1", "doc-that-never-was")
    for who in ("alice", "mike"):
        client = document_house.as_(who)
        answers = [await client.post(f"/api/documents/{one}/publish-proposals") for one in hidden]
        assert {(one.status_code, one.content) for one in answers} == {(404, answers[0].content)}
    seen = await document_house.as_("alice").post("/api/documents/doc-travel-v2/publish-proposals")
    assert (seen.status_code, seen.json()["code"]) == (403, "permission_denied")


@pytest.mark.spec("I1", "I3")
async def test_person_looks_absent_to_whoever_does_not_keep_the_directory(document_house: DocumentHouse) -> None:
    absent = await document_house.as_("directory_admin").get("/api/directory/users/nobody-of-that-name")
    change = {"active": True, "roles": ["directory_admin"], "teams": [], "clearance": 10}
    for who in ("alice", "carol", "auditor", "mike"):
        client = document_house.as_(who)
        answers = [await client.get(f"/api/directory/users/{one}") for one in ("bob", "nobody-of-that-name", who)]
        answers += [await client.put(f"/api/directory/users/{one}", json=change) for one in ("nobody-new", who)]
        assert [(one.status_code, one.content) for one in answers] == [(404, absent.content)] * len(answers)
        page = await document_house.governance.audit(type="access-denied", actor=who, limit=200)
        denied = [(one.record.action, one.record.code) for one in page.items if one.record.action.startswith("direct")]
        assert {("directory.read", "permission_denied"), ("directory.write", "permission_denied")} == set(denied)
    kept = document_house.as_("directory_admin")
    assert (await kept.get("/api/directory/users/nobody-new")).status_code == 404
    assert (await kept.get("/api/directory/users/alice")).json()["clearance"] != 10


@pytest.mark.spec("I3")
@pytest.mark.parametrize("who", ["bob", "carol"])
async def test_upload_into_a_forbidden_and_an_absent_base_are_one_answer(
    document_house: DocumentHouse, who: str
) -> None:
    forbidden = await document_house.upload(who, base="kb-executive")
    absent = await document_house.upload(who, base="kb-that-never-was")
    impossible = await document_house.upload(who, base="../kb-executive")
    assert {answer.status_code for answer in (forbidden, absent, impossible)} == {404}
    assert {answer.content for answer in (absent, impossible)} == {forbidden.content}


@pytest.mark.spec("I3")
async def test_document_forbidden_and_absent_cost_the_same_statements_and_records(
    document_house: DocumentHouse,
) -> None:
    client, records = document_house.as_("carol"), []
    asked: list[list[str]] = []
    for document_id in ("doc-layoff-plan", "doc-that-never-was"):
        with statements(document_house) as counted:
            answers = await every_call(client, document_id)
        ids = {answer.headers["x-request-id"] for answer in answers}
        asked.append([statement for request_id, statement in counted if request_id in ids])
        page = await document_house.governance.audit(type="access-denied", actor="carol", limit=200)
        records.append(sorted(one.record.action for one in page.items if one.record.request_id in ids))
    assert asked[0] == asked[1] != []
    assert records[0] == records[1]
    assert len(records[0]) >= len(answers) - 1


@pytest.mark.spec("K1", "I3")
async def test_upload_and_lists_are_refused_to_a_reader_who_has_no_such_duty(document_house: DocumentHouse) -> None:
    document_id = await document_house.published(b"# Tea\n\nTea is free.\n")
    alice = document_house.as_("alice")
    answers = [
        await document_house.upload("alice"),
        await document_house.upload("alice", document_id=document_id),
        await document_house.upload("alice", document_id="doc-that-never-was"),
        await alice.put(f"/api/documents/{document_id}/acl", json={}),
        await alice.post(f"/api/documents/{document_id}/withdrawal", json={}),
    ]
    assert [(one.status_code, one.json()["code"]) for one in answers] == [(403, "permission_denied")] * 5


@pytest.mark.spec("K1")
async def test_base_is_managed_by_its_owner_whose_drafts_nobody_else_sees(document_house: DocumentHouse) -> None:
    owner = await person_of(document_house, f"owner-{secrets.token_hex(3)}", "employee")
    base = await base_of(document_house, roles=("employee",), owner=owner)
    document_id = (await document_house.upload(owner, base=base)).json()["document_id"]
    assert (await document_house.read(owner, document_id))["state"] == "ready"
    assert (await document_house.as_("alice").get(f"/api/documents/{document_id}")).status_code == 404
    changed = await document_house.as_(owner).put(f"/api/documents/{document_id}/acl", json={"roles": ["employee"]})
    assert changed.status_code == 200
    await person_of(document_house, owner, active=False)
    assert (await document_house.upload(owner, base=base)).status_code == 404
    assert (await document_house.as_(owner).get(f"/api/documents/{document_id}")).status_code == 404


@pytest.mark.spec("R4", "W10", "I1")
async def test_source_ends_for_whoever_is_dismissed_or_moved(document_house: DocumentHouse) -> None:
    house = document_house
    base = await base_of(house, roles=("rnd",), owner="carol", clearance=1)
    document_id = await house.published(b"# Quark\n\nQuarks come in six flavours.\n", base=base)
    who, path = await person_of(house, f"rita-{secrets.token_hex(3)}", *RND), f"/api/documents/{document_id}/source"
    client = house.as_(who)
    changes: list[dict[str, Any]] = [
        {"roles": ("employee",)},
        {"roles": RND, "clearance": 0},
        {"roles": RND, "active": False},
    ]
    for change in changes:
        await person_of(house, who, *RND)
        assert (await client.get(path)).status_code == 200
        assert document_id in await house.found(who, "quarks flavours")
        await person_of(house, who, *change["roles"], **{k: v for k, v in change.items() if k != "roles"})
        assert (await client.get(path)).status_code == 404
        search = await client.get("/api/search", params={"q": "quarks flavours"})
        assert document_id not in search.text


@pytest.mark.spec("I4")
async def test_document_of_another_tenant_does_not_exist(document_house: DocumentHouse) -> None:
    document_id = await document_house.published(b"# Wall\n\nTenants see no walls.\n")
    stranger = document_house.as_("alice", "globex")
    answers = await every_call(stranger, document_id)
    expected = await every_call(stranger, "doc-that-never-was")
    assert [one.status_code for one in answers] == [one.status_code for one in expected]
    assert [one.content for one in answers] == [one.content for one in expected]
    assert document_id not in (await stranger.get("/api/documents", params={"limit": 200})).text
