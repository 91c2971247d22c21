"""The original of a draft is its text: where policy lets a text be read only after somebody agreed, so is the file."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from placet.knowledge.models import Acl, KnowledgeBase
from placet.storage import OWNER
from tests.integration.approval_steps import policy, settled
from tests.integration.document_house import DocumentHouse, until
from tests.integration.governance_rig import GovernanceRig

pytestmark = [pytest.mark.spec("K4", "T5"), pytest.mark.timeout(300)]

DRAFT = b"# Rota\n\nThe code is CANARY-heron-4471.\n"
TITLE = "TITLE-heron"


@pytest.fixture(scope="module")
async def house(apart: GovernanceRig) -> AsyncIterator[DocumentHouse]:
    """Sensitive reads wait for a person in this house, while a test of this module runs."""
    house = DocumentHouse(apart)
    await house.start()
    with policy(apart, "limits", lambda limits: limits["sensitive_read"].update(gate=True)):
        await settled(apart)
        yield house
    await settled(apart)
    await house.stop()


async def _person(house: DocumentHouse, *roles: str, active: bool = True, name: str | None = None) -> str:
    who = name or f"p-{secrets.token_hex(4)}"
    body = {"active": active, "roles": list(roles), "teams": [], "clearance": 1}
    assert (await house.as_("directory_admin").put(f"/api/directory/users/{who}", json=body)).status_code == 200
    return who


async def _admin(house: DocumentHouse) -> str:
    return await _person(house, "employee", "knowledge_admin")


async def _source(house: DocumentHouse, who: str, document_id: str, version: int = 1) -> tuple[int, str | None]:
    answer = await house.as_(who).get(f"/api/documents/{document_id}/source?version={version}")
    return answer.status_code, None if answer.status_code == 200 else answer.json()["code"]


async def _agreed(house: DocumentHouse, who: str, document_id: str, version: int = 1) -> dict[str, Any]:
    """Asked for, agreed to by a platform operator, carried out: the outcome."""
    path = f"/api/tools/document-versions/{document_id}?version={version}"
    waiting = await house.as_(who).get(path)
    assert waiting.status_code == 202
    operator = house.as_(await _person(house, "platform_operator"))
    path = f"/api/proposals/{waiting.json()['proposal_id']}"
    card = (await operator.get(path)).json()
    assert card["arguments"] == {"document_id": document_id, "version": version}
    assert (card["resource"]["type"], card["resource"]["id"]) == ("document", document_id)
    assert "heron" not in str(card)
    decided = await operator.post(f"{path}/decisions", json={"decision": "approve", "digest": card["digest"]})
    assert decided.status_code == 200

    async def completed() -> dict[str, Any] | None:
        view: dict[str, Any] = (await house.as_(who).get(path)).json()
        return view if view["status"] == "completed" else None

    view = await until(completed)
    assert view["finish_reason"] == "success"
    outcome: dict[str, Any] = view["outcome"]["result"]
    return outcome


async def _told(house: DocumentHouse) -> list[str]:
    """Every message on the bus's record."""
    bus = await house.governance.nats.bus("provision")
    found = []
    for stream in ("APPROVALS", "EFFECTS", "AUDIT", "DOCUMENTS"):
        last = (await bus.js.stream_info(stream)).state.last_seq
        found += [(await bus.js.get_msg(stream, seq=seq)).data or b"" for seq in range(1, last + 1)]
    return [data.decode(errors="replace") for data in found]


@pytest.mark.spec("T7")
async def test_source_of_a_draft_is_shown_to_whom_it_was_agreed_for_and_to_nobody_else(house: DocumentHouse) -> None:
    asker, other = await _admin(house), await _admin(house)
    document_id = (await house.upload("carol", DRAFT, title=TITLE)).json()["document_id"]
    await house.upload("carol", DRAFT + b"More.\n", document_id=document_id, title=TITLE)
    assert (await house.read("carol", document_id))["state"] == "ready"
    for who in (asker, other, "carol"):
        assert await _source(house, who, document_id) == (403, "permission_denied")
    outcome = await _agreed(house, asker, document_id)
    assert outcome["content"] is None
    answer = await house.as_(asker).get(outcome["href"])
    assert (answer.status_code, answer.content) == (200, DRAFT)
    assert await _source(house, asker, document_id, 2) == (403, "permission_denied")
    assert await _source(house, other, document_id) == (403, "permission_denied")
    assert await _source(house, "alice", document_id) == (404, "not_found")
    page = await house.governance.audit(type="access-denied", actor=other, limit=50)
    assert {(one.record.action, one.record.code) for one in page.items} == {("read-source", "permission_denied")}
    assert not [message for message in await _told(house) if "heron" in message], "neither text nor title is on record"


@pytest.mark.spec("R4")
async def test_agreement_ends_after_an_hour_and_with_the_rights_of_who_got_it(house: DocumentHouse) -> None:
    asker = await _admin(house)
    document_id = (await house.upload("carol", DRAFT)).json()["document_id"]
    assert (await house.read("carol", document_id))["state"] == "ready"
    await _agreed(house, asker, document_id)
    assert await _source(house, asker, document_id) == (200, None)
    await _person(house, "employee", "knowledge_admin", active=False, name=asker)
    assert await _source(house, asker, document_id) == (404, "not_found")
    await _person(house, "employee", name=asker)
    assert await _source(house, asker, document_id) == (404, "not_found")
    await _person(house, "employee", "knowledge_admin", name=asker)
    assert await _source(house, asker, document_id) == (200, None)
    async with house.governance.postgres.database(OWNER).transaction() as connection:
        await connection.execute(
            text("UPDATE knowledge.releases SET released_at = released_at - interval '61 minutes' WHERE actor = :who"),
            {"who": asker},
        )
    assert await _source(house, asker, document_id) == (403, "permission_denied")


async def test_source_of_a_draft_is_its_owners_and_of_a_published_version_its_readers(house: DocumentHouse) -> None:
    owner = await _person(house, "employee")
    base = KnowledgeBase("acme", f"kb-{owner}", "Rota", Acl(roles=frozenset({"employee"}), owner=owner))
    await house.governance.postgres.knowledge().put_base(base)
    document_id = (await house.upload(owner, DRAFT, base=base.base_id)).json()["document_id"]
    assert (await house.read(owner, document_id))["state"] == "ready"
    assert await _source(house, owner, document_id) == (200, None)
    assert await _source(house, "carol", document_id) == (403, "permission_denied")
    assert (await house.publish("carol", document_id)).json()["finish_reason"] == "success"
    assert await _source(house, "alice", document_id) == (200, None)
    withdrawn = await house.as_("carol").post(f"/api/documents/{document_id}/withdrawal", json={})
    assert withdrawn.status_code == 200
    assert await _source(house, "carol", document_id) == (403, "permission_denied")
