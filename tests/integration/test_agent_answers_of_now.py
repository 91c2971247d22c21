"""An answer that was given, as its owner may read it today: replaced sources, lost rights (K4, R6)."""

from __future__ import annotations

from typing import Any

import pytest

from placet.observability.context import new_id
from tests.integration.whole_house import WholeHouse

WITHHELD = "This answer quotes a source that you may not read now"


async def deltas(house: WholeHouse, who: str, run_id: str) -> str:
    """The text that the run's event stream shows from its beginning."""
    answer = await house.as_(who).get(f"/api/runs/{run_id}/events")
    return "".join(line for line in answer.text.splitlines() if line.startswith("data:") and "message.delta" in line)


async def rule(house: WholeHouse, name: str, code: int, **more: Any) -> str:
    """The id of a published document about the door called `name`."""
    data = f"# Door rules\n\nThe entry code of the {name} door is {code}.\n".encode()
    return await house.published(data, title=f"Rules of {name}", **more)


async def replaced(house: WholeHouse, document_id: str, name: str, code: int) -> None:
    data = f"# Door rules\n\nThe entry code of the {name} door is {code}.\n".encode()
    assert (await house.upload("carol", data, document_id=document_id)).status_code == 201
    await house.read("carol", document_id)
    assert (await house.publish("carol", document_id)).json()["finish_reason"] == "success"


@pytest.mark.spec("K2", "K4", "R6", "W10")
async def test_answer_from_a_version_that_was_replaced_is_shown_to_who_may_read_archived_ones_and_to_nobody_else(
    whole_house: WholeHouse,
) -> None:
    house, name = whole_house, new_id("door").replace("-", "")
    reader, admin = new_id("reader"), new_id("admin")
    await house.put_person(reader)
    await house.put_person(admin, roles=["employee", "knowledge_admin"])
    document_id = await rule(house, name, 4711)
    runs = {}
    for who in (reader, admin):
        runs[who], shown = await house.answered(who, f"What is the entry code of the {name} door?")
        assert "4711" in shown["answer"]
        assert [one["chunk_id"] for one in shown["citations"]] == [f"{document_id}:v1:chunk-01"]
        assert "4711" in await deltas(house, who, runs[who])

    await replaced(house, document_id, name, 4712)

    withheld = await house.run(reader, runs[reader])
    assert withheld["answer"].startswith(WITHHELD)
    assert (withheld["status"], withheld["finish_reason"], withheld["citations"]) == ("completed", "success", [])
    assert "4711" not in await deltas(house, reader, runs[reader])
    assert (await house.as_(reader).get(f"/api/documents/{document_id}/source?version=1")).status_code == 404

    kept = await house.run(admin, runs[admin])
    assert "4711" in kept["answer"]
    (cited,) = kept["citations"]
    assert (cited["version"], cited["snippet"]) == (1, "")
    assert (await house.as_(admin).get(cited["href"])).status_code == 200
    assert "4711" in await deltas(house, admin, runs[admin])

    await house.put_person(admin)
    assert (await house.run(admin, runs[admin]))["answer"].startswith(WITHHELD)
    _, again = await house.answered(reader, f"What is the entry code of the {name} door?")
    assert "4712" in again["answer"]


@pytest.mark.spec("K4", "R4", "R6", "T11")
async def test_archived_version_that_was_read_aloud_is_withheld_from_who_may_not_read_versions_any_more(
    whole_house: WholeHouse,
) -> None:
    house, name, admin = whole_house, new_id("door").replace("-", ""), new_id("admin")
    await house.put_person(admin, roles=["employee", "knowledge_admin"])
    document_id = await rule(house, name, 4911)
    await replaced(house, document_id, name, 4912)
    run_id, shown = await house.answered(admin, f"What does version 1 of {document_id} say?")
    assert "4911" in shown["answer"]
    assert shown["citations"] == []
    await house.put_person(admin)
    assert (await house.run(admin, run_id))["answer"].startswith(WITHHELD)
    assert "4911" not in await deltas(house, admin, run_id)


@pytest.mark.spec("R6", "I3")
async def test_document_closed_to_its_reader_takes_the_answer_with_it_and_gives_it_back(
    whole_house: WholeHouse,
) -> None:
    house, name, reader = whole_house, new_id("door").replace("-", ""), new_id("reader")
    await house.put_person(reader)
    document_id = await rule(house, name, 4811)
    run_id, shown = await house.answered(reader, f"What is the entry code of the {name} door?")
    admin = house.as_("carol")
    for roles, told in ((["finance_approver", "knowledge_admin"], WITHHELD), ([], shown["answer"])):
        closed = {"roles": roles, "teams": [], "clearance": 0}
        answer = await admin.put(f"/api/documents/{document_id}/acl", json=closed)
        assert answer.status_code == 200, answer.text
        assert (await house.run(reader, run_id))["answer"].startswith(told)
