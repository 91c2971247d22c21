"""What a person may no longer see: an own run after a dismissal, an answer after its source was closed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from gateway_rig import House, open_house
from gateway_streams import Frame, begin, delta, frames, ids, read

from placet.messaging.reading import EventReader

CITED = ["doc-1:v2:chunk-01"]
SECRET = "650 per night"


@pytest.fixture(scope="module")
async def opened() -> AsyncIterator[House]:
    async with open_house(gateway_heartbeat_s=0.3) as house:
        yield house


@pytest.fixture
def house(opened: House) -> House:
    opened.executor.hidden = {"doc-9"}
    opened.executor.dismissed = set()
    opened.executor.delay_s = 0.0
    return opened


async def answered(house: House) -> str:
    run_id = await begin(house)
    await house.agent.append(run_id, "message-delta", {"text": SECRET})
    await house.agent.complete(run_id, SECRET, CITED)
    return run_id


@pytest.mark.spec("I1", "I3")
async def test_own_run_of_a_dismissed_person_is_404_on_the_very_next_call_like_an_absent_one(house: House) -> None:
    alice, run_id = house.as_(), await answered(house)
    assert (await alice.get(f"/api/runs/{run_id}")).json()["answer"] == SECRET
    house.executor.dismissed = {"alice"}
    absent = await alice.get("/api/runs/run-nowhere")
    for method, path in (("GET", ""), ("GET", "/events"), ("POST", "/cancel")):
        answer = await alice.request(method, f"/api/runs/{run_id}{path}")
        assert (answer.status_code, answer.content) == (404, absent.content), path
    for method in ("GET", "DELETE"):
        assert (await alice.request(method, "/api/conversations/conv-1/memory")).status_code == 404
    records = await EventReader(house.agent.bus, "RUNS").entity("acme", "agent", run_id)
    assert len(records) == 3, "cancelling was not passed on"


@pytest.mark.spec("I1", "I3", "L1")
async def test_own_run_refused_to_a_dismissed_person_is_on_the_record(house: House) -> None:
    alice, run_id = house.as_(), await answered(house)
    house.executor.dismissed = {"alice"}
    await alice.get(f"/api/runs/{run_id}")
    await alice.get(f"/api/runs/{run_id}/events")
    reader = EventReader(house.approval.bus, "AUDIT")
    records = [one.envelope.data for one in await reader.entity("acme", "audit", run_id)]
    assert [(one["action"], one["note"]) for one in records] == [
        ("run.read", "a person who is not active"),
        ("run.follow", "a person who is not active"),
    ]


@pytest.mark.spec("I1")
async def test_event_stream_of_a_person_dismissed_meanwhile_ends_at_the_next_heartbeat(house: House) -> None:
    run_id = await begin(house)
    async with asyncio.timeout(60), house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        stream = frames(response)
        assert (await anext(stream)).id == 1
        house.executor.dismissed = {"alice"}
        rest = [one async for one in stream]
    assert ids(rest) in ([], [None])


@pytest.mark.spec("I1", "T11")
@pytest.mark.parametrize("name", ["tool-completed", "run-completed"])
async def test_event_stored_after_a_dismissal_is_not_shown_even_at_once(house: House, name: str) -> None:
    run_id = await begin(house)
    async with asyncio.timeout(60), house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        stream = frames(response)
        assert (await anext(stream)).id == 1
        house.executor.dismissed = {"alice"}
        if name == "run-completed":
            await house.agent.complete(run_id, SECRET, CITED)
        else:
            await house.agent.append(run_id, name, {"call_id": "c", "tool": "t", "status": "ok"})
        rest = [one async for one in stream if one.id is not None]
    assert rest == []


@pytest.mark.spec("I1")
async def test_pieces_of_an_answer_ride_on_one_word_and_end_soon_after_a_dismissal(house: House) -> None:
    run_id = await begin(house)
    async with asyncio.timeout(60), house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        stream = frames(response)
        assert (await anext(stream)).id == 1
        asked = house.executor.count("resolve-citations")
        await delta(house, run_id, 40)
        assert [(await anext(stream)).id for _ in range(40)] == list(range(2, 42))
        assert house.executor.count("resolve-citations") - asked <= 5, "not once for every piece"
        house.executor.dismissed = {"alice"}
        ended = asyncio.create_task(_rest(stream))
        while not ended.done():
            await delta(house, run_id)
            await asyncio.sleep(0.1)
        assert len(ended.result()) < 60


async def _rest(stream: AsyncIterator[Frame]) -> list[Frame]:
    return [one async for one in stream]


@pytest.mark.spec("U4", "K3", "T11")
@pytest.mark.parametrize(
    ("answer", "sentence"),
    [(SECRET, "This answer quotes a source that you may not read now"), ("每晚 650 元", "您目前无权查看的资料")],
    ids=["english", "chinese"],
)
async def test_answer_whose_source_was_closed_is_withheld_in_its_language(
    house: House, answer: str, sentence: str
) -> None:
    run_id = await begin(house)
    await house.agent.complete(run_id, answer, [*CITED, "doc-2:v1:chunk-01"])
    alice = house.as_()
    assert (await alice.get(f"/api/runs/{run_id}")).json()["answer"] == answer
    house.executor.hidden = {"doc-1"}
    body = (await alice.get(f"/api/runs/{run_id}")).json()
    assert sentence in body["answer"]
    assert answer not in body["answer"]
    assert [one["chunk_id"] for one in body["citations"]] == ["doc-2:v1:chunk-01"]
    assert (body["status"], body["finish_reason"]) == ("completed", "success")


@pytest.mark.spec("U4", "U5", "T11")
async def test_replayed_events_of_an_answer_whose_source_was_closed_keep_their_ids_and_hold_no_text(
    house: House,
) -> None:
    run_id = await answered(house)
    before = await read(house.as_(), run_id)
    assert SECRET in str(before)
    house.executor.hidden = {"doc-1"}
    after = await read(house.as_(), run_id)
    assert ids(after) == ids(before) == [1, 2, 3]
    assert SECRET not in str(after)
    assert (after[1].data or {})["data"] == {"text": ""}
    assert ids(await read(house.as_(), run_id, "1")) == [2, 3]
    house.executor.hidden = {"doc-9"}
    assert await read(house.as_(), run_id) == before


@pytest.mark.spec("U4", "R6", "T11")
async def test_answer_written_from_a_version_it_does_not_cite_is_withheld_once_that_is_closed(house: House) -> None:
    run_id = await begin(house)
    await house.agent.complete(run_id, SECRET, CITED, rests_on=("doc-1:v2", "doc-3:v1"))
    alice = house.as_()
    assert (await alice.get(f"/api/runs/{run_id}")).json()["answer"] == SECRET
    house.executor.hidden = {"doc-3"}
    body = (await alice.get(f"/api/runs/{run_id}")).json()
    assert body["answer"].startswith("This answer quotes a source")
    assert [one["chunk_id"] for one in body["citations"]] == CITED
    end = (await read(alice, run_id))[-1].data or {}
    assert end["data"]["answer"] == body["answer"]


@pytest.mark.spec("U4", "U5", "T11")
async def test_pieces_of_an_answer_that_was_begun_anew_without_a_closed_version_are_told_apart(house: House) -> None:
    """The worker died in the middle, a version was closed, and another worker wrote another answer."""
    run_id = await begin(house)
    await house.agent.append(run_id, "message-delta", {"text": SECRET}, rests_on=("doc-1:v2",))
    house.executor.hidden = {"doc-1"}
    (_, piece) = await read(house.as_(), run_id, most=2)
    assert (piece.data or {})["data"] == {"text": ""}, "no answer is there yet that could say so"
    await house.agent.complete(run_id, "Ask again.", ["doc-2:v1:chunk-01"], rests_on=("doc-2:v1",))
    shown = await read(house.as_(), run_id)
    assert [(one.data or {})["data"].get("text") for one in shown] == [None, "", None]
    assert (shown[-1].data or {})["data"]["answer"] == "Ask again."


@pytest.mark.spec("U4", "T11")
async def test_chat_answered_after_its_source_was_closed_is_withheld(house: House) -> None:
    house.executor.hidden = {"doc-1", "doc-9"}
    body = (await house.as_().post("/api/chat", json={"question": "answer me"})).json()
    assert body["answer"].startswith("This answer quotes a source")
    assert body["citations"] == []


@pytest.mark.spec("U4", "I1")
async def test_chat_repeated_under_its_key_shows_what_may_be_read_now_not_what_was_kept(house: House) -> None:
    alice = house.as_()
    house.executor.hidden = set()
    headers = {"Idempotency-Key": "chat-again"}
    body = {"question": "answer me"}
    first = (await alice.post("/api/chat", json=body, headers=headers)).json()
    assert first["answer"] == "650"
    assert (await alice.post("/api/chat", json=body, headers=headers)).json() == first
    house.executor.hidden = {"doc-1"}
    again = (await alice.post("/api/chat", json=body, headers=headers)).json()
    assert (again["run_id"], again["conversation_id"]) == (first["run_id"], first["conversation_id"])
    assert "650" not in again["answer"]
    assert (await alice.post("/api/chat", json={"question": "other"}, headers=headers)).status_code == 409


@pytest.mark.spec("I1")
async def test_call_repeated_under_its_key_by_a_dismissed_person_gets_nothing_that_was_kept(house: House) -> None:
    alice, headers = house.as_(), {"Idempotency-Key": "echo-1"}
    call = {"json": {"args": {"x": 1}}, "headers": headers}
    assert (await alice.post("/api/tools/echo/calls", **call)).status_code == 200
    house.executor.dismissed = {"alice"}
    assert (await alice.post("/api/tools/echo/calls", **call)).status_code == 404


@pytest.mark.spec("K3", "U5")
async def test_events_wait_while_nobody_can_tell_and_go_on_without_a_gap(house: House) -> None:
    """The executor dies and comes back: streams stay open, with heartbeats alone, and nothing is shown unchecked."""
    run_id = await begin(house)
    async with asyncio.timeout(60), house.as_().stream("GET", f"/api/runs/{run_id}/events") as response:
        stream = frames(response)
        assert (await anext(stream)).id == 1
        await house.executor.stop()
        try:
            assert (await anext(stream)).id is None, "a heartbeat shows nothing and needs no word"
            await house.agent.complete(run_id, SECRET, CITED)
            silent = asyncio.create_task(_rest(stream))
            await asyncio.sleep(0.5)
            assert not silent.done()
        finally:
            await house.executor.open()
        rest = [one for one in await silent if one.id is not None]
    assert ids(rest) == [2]
    assert SECRET in str(rest)


async def test_events_asked_for_while_nobody_can_tell_begin_when_somebody_can(house: House) -> None:
    run_id = await answered(house)
    await house.executor.stop()
    try:
        reading = asyncio.create_task(read(house.as_(), run_id))
        await asyncio.sleep(0.5)
        assert not reading.done()
    finally:
        await house.executor.open()
    assert ids(await reading) == [1, 2, 3]
