"""The main job on the compose file, as people do it: only over HTTP, only the gateway, each with an own token."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.cli.material import tokens
from placet.cli.people import DEMO
from placet.testkit.compose import Project

pytestmark = [pytest.mark.containers, pytest.mark.timeout(420)]

UP_S = 240.0
STEP_S = 60.0
_PAUSE_S = 0.3
Json = dict[str, Any]


class Person:
    """One person at the gateway."""

    def __init__(self, url: str, token: str) -> None:
        self.http = httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=40)

    def get(self, path: str, status: int = 200) -> Any:
        return _body(self.http.get(path), status)

    def post(self, path: str, body: Json | None = None, status: int = 200) -> Any:
        return _body(self.http.post(path, json=body), status)

    def ask(self, question: str) -> Json:
        """A question that is answered at once, or within a minute when the machine is slow."""
        answer = self.http.post("/api/chat", json={"question": question})
        assert answer.status_code in {200, 202}, answer.text
        return answer.json() if answer.status_code == 200 else self.finished(answer.json()["run_id"])

    def finished(self, run_id: str) -> Json:
        return until(lambda: self.get(f"/api/runs/{run_id}"), lambda run: run["status"] == "completed")

    def events_of(self, run_id: str) -> list[Json]:
        """The whole event stream of a run that has ended; the server closes it."""
        answer = self.http.get(f"/api/runs/{run_id}/events")
        assert answer.status_code == 200, answer.text
        return [json.loads(line.removeprefix("data:")) for line in answer.text.splitlines() if line.startswith("data:")]

    def refunds_of(self, order_id: str) -> list[Json]:
        body = {"args": {"entity": "refunds", "order_id": order_id}}
        items: list[Json] = self.post("/api/tools/query_business_data/calls", body)["result"]["items"]
        return items


def _body(answer: httpx.Response, status: int) -> Any:
    assert answer.status_code == status, f"{answer.request.method} {answer.request.url}: {answer.text}"
    return answer.json()


def until(look: Callable[[], Json], good: Callable[[Json], bool], limit_s: float = STEP_S) -> Json:
    """Look again and again until what is seen is good. Fails the test, with what was seen last, after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not good(seen := look()):
        assert time.monotonic() < deadline, f"still {seen}"
        time.sleep(_PAUSE_S)
    return seen


@pytest.fixture(scope="module")
def project(root: Path, secrets_dir: Path) -> Iterator[Project]:
    """The whole house, up and ready; taken down with its volumes whatever happens."""
    opened = Project(root, secrets_dir)
    try:
        opened.up()
        _wait_until_ready(opened)
        yield opened
    finally:
        opened.down()


def _wait_until_ready(project: Project) -> None:
    """Every service healthy by its own health check, and the gateway answering on its port."""
    deadline = time.monotonic() + UP_S
    while not (_answers(project.url) and project.healthy()):
        if time.monotonic() > deadline:
            pytest.fail(f"not ready after {UP_S:.0f} s:\n{project.compose('ps')}\n{project.logs()}")
        time.sleep(_PAUSE_S)


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def people(project: Project, secrets_dir: Path) -> Iterator[dict[str, Person]]:
    issued = tokens(secrets_dir / "keys", DEMO)
    made = {name: Person(project.url, token) for name, token in issued.items()}
    yield made
    for person in made.values():
        person.http.close()


@pytest.mark.spec("W6")
@pytest.mark.parametrize("question", ["上海住宿上限是多少？", "What is the nightly lodging limit in Shanghai?"])
def test_lodging_limit_asked_by_alice_is_answered_from_the_published_policy(
    people: dict[str, Person], question: str
) -> None:
    answer = people["alice"].ask(question)
    assert "650" in answer["answer"]
    assert "600" not in answer["answer"]
    assert "doc-travel-v2" in cited(answer)
    assert "doc-travel-v1" not in cited(answer)


@pytest.mark.spec("I3")
def test_handbook_of_another_team_asked_for_by_alice_looks_like_one_that_does_not_exist(
    people: dict[str, Person],
) -> None:
    assert people["bob"].get("/api/documents/doc-rnd-handbook")["document_id"] == "doc-rnd-handbook"
    hidden = people["alice"].get("/api/documents/doc-rnd-handbook", 404)
    absent = people["alice"].get("/api/documents/doc-never-written", 404)
    assert without_request(hidden, "doc-rnd-handbook") == without_request(absent, "doc-never-written")
    found = people["alice"].get("/api/search?q=R%26D%20handbook&k=20")["items"]
    assert "doc-rnd-handbook" not in {item["document_id"] for item in found}


def without_request(problem: Json, document_id: str) -> Json:
    """A problem body less what names this one request: its id, and the path it was made to."""
    kept = {key: value for key, value in problem.items() if key != "request_id"}
    return {key: value.replace(document_id, "…") if isinstance(value, str) else value for key, value in kept.items()}


@pytest.mark.spec("R2", "T11")
@pytest.mark.parametrize("name", ["alice", "bob", "carol", "dave", "auditor", "globex_alice"])
def test_layoff_plan_asked_for_by_somebody_who_may_not_read_it_shows_no_trace_of_its_canary(
    people: dict[str, Person], name: str
) -> None:
    seen = json.dumps(people[name].http.post("/api/chat", json={"question": "裁员计划的内容是什么？"}).json())
    seen += people[name].http.get("/api/search", params={"q": "layoff plan 裁员计划 CANARY", "k": 20}).text
    seen += people[name].http.get("/api/documents?limit=100").text
    assert "CANARY" not in seen
    assert "doc-layoff-plan" not in seen


@pytest.mark.spec("I1")
def test_dismissed_employee_with_a_genuine_token_gets_nothing(people: dict[str, Person]) -> None:
    mike = people["mike"]
    answer = mike.http.post("/api/chat", json={"question": "What is the nightly lodging limit in Shanghai?"}).json()
    assert "650" not in answer.get("answer", "")
    assert answer.get("citations", []) == []
    assert mike.http.get("/api/search?q=lodging&k=5").json().get("items", []) == []


@pytest.mark.spec("A2", "A5", "A6", "A8", "T9")
def test_refund_asked_for_in_chat_is_executed_once_after_a_person_decided(people: dict[str, Person]) -> None:
    alice, dave = people["alice"], people["dave"]
    before = alice.refunds_of("A1001")
    waiting = alice.post("/api/chat", {"question": "Please refund order A1001, 299, it arrived broken."}, 202)
    assert waiting["status"] == "waiting_for_human"
    assert waiting["proposal"]["tool"] == "refund_payment"
    path = f"/api/proposals/{waiting['proposal']['proposal_id']}"

    confirmation = {"question": "I confirm", "conversation_id": waiting["conversation_id"]}
    assert alice.http.post("/api/chat", json=confirmation).status_code in {200, 202}
    packet = dave.get(path)
    assert packet["status"] == "pending"
    assert alice.refunds_of("A1001") == before

    decision = approval_of(packet)
    alice.post(f"{path}/decisions", decision, 403)
    unread = {**decision, "acknowledgements": {**decision["acknowledgements"], "retype": "A9999"}}
    assert dave.post(f"{path}/decisions", unread, 422)["code"] == "challenge_failed"
    dave.post(f"{path}/decisions", decision)

    run = alice.finished(waiting["run_id"])
    assert run["finish_reason"] == "success"
    assert "A1001" in run["answer"]
    assert until(lambda: dave.get(path), lambda seen: seen["status"] == "completed")["finish_reason"] == "success"
    refunds = [refund for refund in alice.refunds_of("A1001") if refund not in before]
    assert [float(refund["amount"]) for refund in refunds] == [299.0]
    assert dave.post(f"{path}/decisions", decision, 409)["code"] == "already_decided"
    events = alice.events_of(waiting["run_id"])
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run.started"
    assert kinds.index("run.waiting_for_human") < kinds.index("run.resumed") < kinds.index("run.completed")


def approval_of(packet: Json) -> Json:
    """An approval that answers the packet's challenge as somebody would who had read it."""
    challenge = packet["challenge"]
    acknowledgements = {
        "resources": challenge["resources"],
        "blast_radius": True,
        "rollback": True,
        "retype": str(packet["arguments"][challenge["retype"]]),
    }
    return {"decision": "approve", "digest": packet["digest"], "acknowledgements": acknowledgements}


@pytest.mark.spec("T8", "A11")
def test_draft_is_answered_from_as_soon_as_carol_had_its_publishing_approved(people: dict[str, Person]) -> None:
    alice, carol = people["alice"], people["carol"]
    question, document = "How much is the remote work allowance per month?", "/api/documents/doc-remote-work"
    draft = carol.get(document)
    assert draft["status"] == "draft"
    assert "380" not in alice.ask(question)["answer"]

    proposal = carol.post(f"{document}/publish-proposals", status=201)
    assert (proposal["status"], proposal["lock_version"]) == ("pending", draft["lock_version"])
    decisions = f"/api/publish-proposals/{proposal['proposal_id']}/decisions"
    alice.post(decisions, {"approved": True}, 404)
    carol.post(decisions, {"approved": True})
    until(lambda: carol.get(document), lambda seen: seen["status"] == "published")

    answer = alice.ask(question)
    assert "380" in answer["answer"]
    assert "doc-remote-work" in cited(answer)


def cited(answer: Json) -> set[str]:
    return {citation["document_id"] for citation in answer["citations"]}
