"""Subjects: no value from outside widens one (I4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts import subjects
from placet.contracts.registry import COMMANDS, EVENTS
from placet.contracts.subjects import BadSubjectError, Parsed

HOSTILE = [
    "",
    "*",
    ">",
    "a.b",
    ".",
    "a b",
    " a",
    "a\n",
    "\na",
    "a\r\nPUB x 0",
    "a\t",
    "a\x00",
    "é",
    "用户",
    "a*",
    ">a",
    "a/b",
    "$JS",
    "x" * 129,
]
TOKENS = st.text(st.sampled_from("abcXYZ019_-=:"), min_size=1, max_size=128)


@pytest.mark.spec("I4")
@pytest.mark.parametrize("value", HOSTILE)
def test_token_that_could_widen_a_subject_is_refused_everywhere(value: str) -> None:
    attempts = [
        lambda: subjects.token(value),
        lambda: subjects.command(value, "agent", "cancel-run"),
        lambda: subjects.command("acme", value, "cancel-run"),
        lambda: subjects.command("acme", "agent", value),
        lambda: subjects.command("acme", "agent", "start-run", value),
        lambda: subjects.event(value, "approval", "approved", "p1"),
        lambda: subjects.event("acme", value, "approved", "p1"),
        lambda: subjects.event("acme", "approval", value, "p1"),
        lambda: subjects.event("acme", "approval", "approved", value),
        lambda: subjects.entity(value, "approval", "p1"),
        lambda: subjects.entity("acme", "approval", value),
    ]
    for attempt in attempts:
        with pytest.raises(BadSubjectError):
            attempt()


@pytest.mark.spec("I4")
@pytest.mark.parametrize("value", [value for value in HOSTILE if value != "*"])
def test_filter_accepts_no_wildcard_but_the_star(value: str) -> None:
    for attempt in (
        lambda: subjects.event_filter(value, "approval", "approved", "p1"),
        lambda: subjects.event_filter("acme", "approval", value, "p1"),
        lambda: subjects.event_filter("acme", "approval", "approved", value),
        lambda: subjects.command_filter(value, "agent", "cancel-run"),
    ):
        with pytest.raises(BadSubjectError):
            attempt()


def test_filter_with_stars_covers_owner_and_kind_only() -> None:
    assert subjects.event_filter("*", "approval", "*", "*") == "placet.*.approval.evt.*.v1.*"
    assert subjects.command_filter("*", "approval", "decide") == "placet.*.approval.cmd.decide.v1"
    assert subjects.entity("acme", "approval", "p1") == "placet.acme.approval.evt.*.v1.p1"
    with pytest.raises(BadSubjectError):
        subjects.event_filter("acme", "*", "approved", "p1")


@pytest.mark.spec("I4")
@given(tenant=TOKENS, name=TOKENS, entity=TOKENS)
def test_subject_taken_apart_is_what_it_was_made_of(tenant: str, name: str, entity: str) -> None:
    assert subjects.parse(subjects.event(tenant, "approval", name, entity)) == Parsed(
        tenant, "approval", "evt", name, entity
    )
    assert subjects.parse(subjects.command(tenant, "agent", name)) == Parsed(tenant, "agent", "cmd", name, None)


@given(text=st.text(max_size=200))
def test_subject_of_any_text_is_refused_or_made_of_safe_tokens(text: str) -> None:
    try:
        parsed = subjects.parse(text)
    except BadSubjectError:
        return
    assert all(subjects.token(part) for part in (parsed.tenant, parsed.owner, parsed.name))


@pytest.mark.parametrize(
    "subject",
    [
        "placet.acme.approval.evt.approved.v2.p1",
        "placet.acme.approval.evt.approved.v1.p1.more",
        "placet.acme.approval.other.approved.v1.p1",
        "stored.placet.acme.approval.evt.approved.v1.p1",
        "placet.*.approval.evt.approved.v1.p1",
        "placet.acme.approval.evt.approved.v1.",
        "placet.acme.approval.evt.approved.v1.p1\n",
        "placet..approval.evt.approved.v1.p1",
    ],
)
def test_subject_that_is_not_ours_is_refused(subject: str) -> None:
    with pytest.raises(BadSubjectError):
        subjects.parse(subject)


def test_every_message_of_the_registry_has_a_subject() -> None:
    for command in COMMANDS:
        assert subjects.parse(subjects.command("acme", command.owner, command.name)).kind == "cmd"
    for event in EVENTS:
        assert subjects.parse(subjects.event("acme", event.owner, event.name, "x")).kind == "evt"
