"""Lists of a document only narrow, and any change of it calls off what was proposed on the old state."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.document_house import DocumentHouse
from tests.integration.own_base import base_of


@pytest.mark.spec("K1", "R4")
async def test_list_of_a_document_narrows_its_base_at_the_very_next_read(document_house: DocumentHouse) -> None:
    house = document_house
    document_id = await house.published(b"# Zebra\n\nThe zebra crossing is closed.\n", title="Zebra")
    alice, carol, path = house.as_("alice"), house.as_("carol"), f"/api/documents/{document_id}"
    assert document_id in await house.found("alice", "zebra crossing")
    assert (await alice.get(f"{path}/source")).status_code == 200
    answer = await carol.put(f"{path}/acl", json={"roles": ["knowledge_admin"]})
    assert (answer.status_code, answer.json()["lock_version"]) == (200, 3)
    assert document_id not in await house.found("alice", "zebra crossing")
    assert [(await alice.get(one)).status_code for one in (path, f"{path}/source")] == [404, 404]
    assert document_id in await house.found("carol", "zebra crossing")
    assert (await carol.put(f"{path}/acl", json={})).status_code == 200
    assert document_id in await house.found("alice", "zebra crossing")
    page = await house.governance.audit(type="document-changed", actor="carol", limit=200)
    changes = [one.record.result for one in page.items if (one.record.resource or {})["id"] == document_id]
    assert {"roles": ["knowledge_admin"], "teams": [], "clearance": 0, "owner": None} in changes


@pytest.mark.spec("K1", "R4")
async def test_list_however_wide_opens_nothing_that_the_base_keeps_closed(document_house: DocumentHouse) -> None:
    house = document_house
    base = await base_of(house, roles=("rnd",), owner="carol")
    document_id = await house.published(b"# Xenon\n\nThe xenon lamp is secret.\n", base=base)
    path = f"/api/documents/{document_id}"
    for wide in ({"roles": ["employee"]}, {"owner": "alice"}, {"roles": ["*", "rnd", "employee"]}, {"clearance": 0}):
        assert (await house.as_("carol").put(f"{path}/acl", json=wide)).status_code == 200
        assert document_id not in await house.found("alice", "xenon lamp")
        assert (await house.as_("alice").get(f"{path}/source")).status_code == 404
    assert document_id in await house.found("bob", "xenon lamp")


@pytest.mark.parametrize(
    "body",
    [
        {"roles": "employee"},
        {"roles": ["a\u0000b"]},
        {"roles": [""]},
        {"clearance": -1},
        {"clearance": 11},
        {"clearance": True},
        {"tenant": "globex"},
        {"roles": ["x"] * 101},
        {"lock_version": "1"},
    ],
    ids=str,
)
async def test_list_that_is_no_list_is_refused(document_house: DocumentHouse, body: dict[str, Any]) -> None:
    answer = await document_house.as_("carol").put("/api/documents/doc-travel-v2/acl", json=body)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.spec("A11", "T8", "T6")
async def test_proposal_to_publish_is_called_off_by_any_change_of_the_document(document_house: DocumentHouse) -> None:
    """T6 is read as: publishing is proposed over HTTP only, and bound to the document's lock version."""
    house, carol = document_house, document_house.as_("carol")

    async def new_list(document_id: str) -> None:
        await carol.put(f"/api/documents/{document_id}/acl", json={"roles": ["employee"]})

    async def new_version(document_id: str) -> None:
        await house.upload("carol", b"# Gate\n\nAnother text.\n", document_id=document_id)

    for change in (new_list, new_version):
        document_id = (await house.upload("carol")).json()["document_id"]
        proposal = (await carol.post(f"/api/documents/{document_id}/publish-proposals")).json()
        assert proposal["lock_version"] == 1
        await change(document_id)
        path = f"/api/publish-proposals/{proposal['proposal_id']}/decisions"
        answer = await carol.post(path, json={"approved": True})
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        assert (await carol.get(f"/api/documents/{document_id}")).json()["status"] == "draft"


async def test_list_and_withdrawal_at_an_old_lock_version_change_nothing(document_house: DocumentHouse) -> None:
    document_id = await document_house.published(b"# Old\n\nOld lock.\n")
    carol, path = document_house.as_("carol"), f"/api/documents/{document_id}"
    stale = [
        await carol.put(f"{path}/acl", json={"roles": ["c_level"], "lock_version": 1}),
        await carol.post(f"{path}/withdrawal", json={"lock_version": 1}),
    ]
    assert [(one.status_code, one.json()["code"]) for one in stale] == [(409, "conflict")] * 2
    view = (await carol.get(path)).json()
    assert (view["status"], view["lock_version"]) == ("published", 2)
    assert (await document_house.as_("alice").get(path)).status_code == 200


@pytest.mark.spec("R4", "W10")
async def test_withdrawn_document_is_neither_found_nor_cited_nor_opened(document_house: DocumentHouse) -> None:
    house = document_house
    document_id = await house.published(b"# Yak\n\nThe yak is fed at noon.\n")
    path = f"/api/documents/{document_id}"
    answer = await house.as_("carol").post(f"{path}/withdrawal", json={"lock_version": 2})
    assert (answer.status_code, answer.json()["status"], answer.json()["lock_version"]) == (200, "archived", 3)
    assert document_id not in await house.found("alice", "yak fed noon")
    alice = house.as_("alice")
    assert [(await alice.get(one)).status_code for one in (path, f"{path}/source?version=1")] == [404, 404]
    assert (await house.as_("carol").get(f"{path}/source?version=1")).status_code == 200
    again = await house.as_("carol").post(f"{path}/withdrawal", json={})
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
