"""One request id through all hops: taken from the caller only when harmless, bound to logs, gone afterwards (L1)."""

from __future__ import annotations

import asyncio
import re

import pytest

from placet.contracts import subjects
from placet.observability.context import (
    RequestContext,
    bound,
    current,
    log_fields,
    new_id,
    new_traceparent,
    request_id_or_new,
)


@pytest.mark.spec("L1")
@pytest.mark.parametrize("offered", ["r", "req-1", "a.b_c-9", "x" * 128])
def test_request_id_that_is_harmless_is_kept(offered: str) -> None:
    assert request_id_or_new(offered) == offered


@pytest.mark.spec("L1")
@pytest.mark.parametrize(
    "offered",
    [None, "", " ", "a b", "a\n", "\na", "a\r\nX-Evil: 1", 'a"b', "{}", "é", "x" * 129, "*", ">", "a/b", "\x00"],
)
def test_request_id_that_could_inject_is_replaced(offered: str | None) -> None:
    made = request_id_or_new(offered)
    assert made != offered
    assert re.fullmatch(r"req-[0-9a-f]{26}", made)


def test_new_ids_are_different_and_safe_in_subjects() -> None:
    made = {new_id("run") for _ in range(1000)}
    assert len(made) == 1000
    assert all(subjects.token(one) == one for one in made)


def test_new_traceparent_follows_the_w3c_form() -> None:
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", new_traceparent())


def test_context_outside_any_request_is_fresh_each_time() -> None:
    assert current().request_id != current().request_id


def test_bound_context_is_current_until_the_block_ends_even_by_an_error() -> None:
    outer = RequestContext("req-outer", "acme", "alice")
    inner = RequestContext("req-inner", "acme", "alice")

    def fail() -> None:
        with bound(inner):
            assert current() is inner
            raise RuntimeError("inside")

    with bound(outer):
        with pytest.raises(RuntimeError):
            fail()
        assert current() is outer
    assert current() not in (outer, inner)


@pytest.mark.spec("L1", "I4")
async def test_bound_contexts_of_concurrent_tasks_do_not_mix() -> None:
    async def work(number: int) -> tuple[str, object]:
        with bound(RequestContext(f"req-{number}", "acme", f"actor-{number}")):
            await asyncio.sleep(0.001 * (number % 3))
            return current().request_id, log_fields()["actor"]

    results = await asyncio.gather(*(work(number) for number in range(50)))
    assert results == [(f"req-{number}", f"actor-{number}") for number in range(50)]


def test_bound_context_leaves_no_log_fields_behind() -> None:
    before = log_fields()
    with bound(RequestContext("req-1", "acme", "alice")):
        assert log_fields() == {"request_id": "req-1", "tenant": "acme", "actor": "alice"}
    assert log_fields() == before
