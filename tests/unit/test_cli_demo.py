"""The demo must notice what is wrong: a check that cannot fail shows nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.cli.demo import answers, hidden, run
from placet.cli.demo.refund import NotShowableError
from placet.cli.demo.report import Report
from placet.cli.demo.run import Target, run_demo
from placet.cli.demo.world import World, canary, mentions, read_tokens
from placet.client import PlacetClient, ReadyLine

PEOPLE = ("alice", "bob", "carol", "dave", "erin", "mike", "auditor")
CITATION = {
    "chunk_id": "doc-travel-v2:v1:chunk-02",
    "document_id": "doc-travel-v2",
    "title": "Travel policy v2",
    "version": 1,
    "page": None,
    "section": "Lodging limits",
    "snippet": "The nightly lodging limit in Shanghai is CNY 650.",
    "href": "/api/documents/doc-travel-v2/source?version=1",
}


def world_of(handler: Callable[[httpx.Request], httpx.Response]) -> World:
    transport = httpx.MockTransport(handler)
    return World("http://gateway", {name: PlacetClient("http://gateway", name, transport=transport) for name in PEOPLE})


def gateway(**changes: Any) -> Callable[[httpx.Request], httpx.Response]:
    """Answers the two lodging questions as it should, apart from the changes."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/source"):
            return httpx.Response(200, content=b"... 650 ...")
        chinese = "上海" in json.loads(request.content)["question"]
        text = "上海的住宿上限是每晚 650 元。" if chinese else "The nightly lodging limit in Shanghai is CNY 650."
        body = {
            "run_id": "r",
            "conversation_id": "c",
            "answer": text,
            "citations": [CITATION],
            "finish_reason": "success",
        }
        return httpx.Response(200, json=body | changes)

    return answer


async def test_lodging_step_with_right_answers_holds() -> None:
    report = Report()
    await answers.show(world_of(gateway()), report)
    assert report.failures == []
    assert report.checks >= 12


@pytest.mark.parametrize(
    ("changes", "failing"),
    [
        ({"answer": "The limit is CNY 600."}, "the answer says 650"),
        ({"answer": "It was 600, now it is 650."}, "the archived 600 is nowhere"),
        ({"finish_reason": "failed"}, "the run ends with success"),
        ({"citations": []}, "it cites doc-travel-v2"),
        ({"citations": [{**CITATION, "document_id": "doc-travel-v1"}]}, "it does not cite doc-travel-v1"),
        ({"citations": [{**CITATION, "chunk_id": "doc-travel-v2:v9:chunk-02"}]}, "the citation"),
        ({"citations": [{**CITATION, "snippet": "The limit is 600."}]}, "the archived 600 is nowhere"),
        ({"answer": "The limit is CNY 650."}, "the answer is in the question's language"),
    ],
)
async def test_lodging_step_with_a_wrong_answer_fails_in_that_check(changes: dict[str, Any], failing: str) -> None:
    report = Report()
    await answers.show(world_of(gateway(**changes)), report)
    assert any(failing in failure for failure in report.failures), report.failures


def leaky(request: httpx.Request) -> httpx.Response:
    """A gateway that hides nothing from anybody."""
    path = request.url.path
    if path == "/api/search":
        hit = {"chunk_id": "x", "document_id": "doc-rnd-handbook", "title": "t", "version": 1, "score": 1}
        return httpx.Response(200, json={"items": [{**hit, "snippet": f"Blue Whale {canary()}"}]})
    if path.endswith("/events"):
        done = {"run_id": "r", "seq": 1, "type": "run.completed", "time": "2026-11-30T12:00:00Z", "data": {}}
        return httpx.Response(
            200, headers={"content-type": "text/event-stream"}, content=f"id: 1\ndata: {json.dumps(done)}\n\n"
        )
    if path == "/api/chat":
        text = f"Blue Whale, {canary()}, 650"
        return httpx.Response(
            200, json={"run_id": "r", "conversation_id": "c", "answer": text, "finish_reason": "success"}
        )
    if path.startswith("/api/runs/"):
        return httpx.Response(200, json={"run_id": "r", "status": "completed"})
    if path.startswith("/api/tools/"):
        return httpx.Response(200, json={"call_id": "c", "status": "ok", "result": {}})
    if path.endswith("/source"):
        return httpx.Response(200, content=b"all of it")
    document = {
        "document_id": "d",
        "knowledge_base_id": "kb",
        "title": "t",
        "version": 1,
        "status": "published",
        "lock_version": 1,
        "media_type": "text/markdown",
        "sha256": "0",
        "size": 1,
    }
    return httpx.Response(200, json=document)


async def test_hidden_step_against_a_gateway_that_hides_nothing_fails_everywhere() -> None:
    report = Report()
    await hidden.show(world_of(leaky), report)
    told = "\n".join(report.failures)
    for failing in (
        "is 404 for Alice",
        "her search does not find it",
        "Alice's run shows nothing of it",
        "canary appears for none",
        "Mike, who was dismissed, finds nothing",
        "no document opens for him",
        "no tool runs for him",
        "his run is refused",
        "not there for him afterwards",
    ):
        assert failing in told, failing


def serve_at(monkeypatch: pytest.MonkeyPatch, handler: Callable[[httpx.Request], httpx.Response]) -> None:
    """Let every client of the demo talk to this handler."""
    original = PlacetClient.__init__

    def init(self: PlacetClient, url: str, token: str) -> None:
        original(self, url, token, transport=httpx.MockTransport(handler))

    monkeypatch.setattr(PlacetClient, "__init__", init)


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps(dict.fromkeys(PEOPLE, "t")))
    return file


async def test_demo_against_a_gateway_that_refuses_everything_exits_1_and_goes_through_all_steps(
    monkeypatch: pytest.MonkeyPatch, tokens_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_at(monkeypatch, lambda _: httpx.Response(401, json={"code": "unauthenticated", "detail": "no"}))
    assert await run_demo(Target("http://gateway", tokens_file)) == 1
    shown = capsys.readouterr().out
    for step in ("Step 1", "Step 2", "Step 3", "Step 4", "Step 5"):
        assert f"{step}:" in shown
        assert f"✗ {step}" in shown


async def test_demo_whose_steps_all_hold_exits_0(
    monkeypatch: pytest.MonkeyPatch, tokens_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_at(monkeypatch, lambda _: httpx.Response(200, json={"ready": True, "checks": {"bus": True}}))

    async def fine(*_: object) -> str:
        return "refunded"

    for step in (run.answers, run.hidden, run.refund, run.publish, run.record):
        monkeypatch.setattr(step, "show", fine)
    assert await run_demo(Target("http://gateway", tokens_file)) == 0
    assert "checks hold" in capsys.readouterr().out


async def test_demo_step_that_cannot_be_shown_counts_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, tokens_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serve_at(monkeypatch, lambda _: httpx.Response(200, json={"ready": True, "checks": {"bus": True}}))

    async def fine(*_: object) -> None: ...

    async def used(*_: object) -> None:
        raise NotShowableError("A1001 has been refunded before")

    for step in (run.answers, run.hidden, run.publish, run.record):
        monkeypatch.setattr(step, "show", fine)
    monkeypatch.setattr(run.refund, "show", used)
    assert await run_demo(Target("http://gateway", tokens_file)) == 1
    assert "A1001 has been refunded before" in capsys.readouterr().out


async def test_demo_with_url_but_no_tokens_exits_2() -> None:
    assert await run_demo(Target("http://gateway", None)) == 2


async def test_demo_with_a_token_missing_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tokens.json"
    file.write_text('{"alice": "t"}')
    assert await run_demo(Target("http://127.0.0.1:1", file)) == 2
    assert "no token for bob" in capsys.readouterr().err


def test_tokens_are_read_from_a_ready_line_or_from_a_plain_object(tmp_path: Path) -> None:
    file = tmp_path / "file"
    ready = ReadyLine(gateway="g", nats="n", tokens={"alice": "a"}, pids={}, policy_engine="opa")
    for text in (f"starting …\n{ready.render()}\n", '{"alice": "a"}', '{"tokens": {"alice": "a"}}'):
        file.write_text(text)
        assert read_tokens(file) == {"alice": "a"}
    file.write_text("[]")
    with pytest.raises(ValueError, match="neither"):
        read_tokens(file)


@pytest.mark.parametrize(
    ("text", "number", "there"),
    [
        ("it is 650.", "650", True),
        ("每晚650元", "650", True),
        ("CNY 1650", "650", False),
        ("6500", "650", False),
        ("0.650", "650", False),
        (None, "650", False),
        ("299.00", "299", True),
    ],
)
def test_number_is_found_only_where_it_stands_by_itself(text: str | None, number: str, there: bool) -> None:
    assert mentions(text, number) is there
