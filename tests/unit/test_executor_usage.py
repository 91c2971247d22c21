"""What counts against a limit, as pure values, and a replica's share of what a tenant may have under way (G11)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.contracts.errors import ErrorCode, PlacetError
from services.tool_executor.domain.usage import DaySpending, RunUse
from services.tool_executor.handlers.slots import TenantSlots

KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.one_of(
    st.tuples(st.just("reserve"), KEYS, st.integers(1, 60)), st.tuples(st.sampled_from(["took", "did_not"]), KEYS)
)


@pytest.mark.spec("G11")
@given(st.lists(STEPS, max_size=30))
def test_day_is_never_overspent_whatever_is_reserved_and_closed(steps: list[tuple[str, ...]]) -> None:
    day, limit, spent, under_way = DaySpending(), Decimal(100), Decimal(0), dict[str, Decimal]()
    for step, key, *amount in steps:
        if step == "reserve":
            changed = day.reserve(key, Decimal(amount[0]), limit)
            fits = key in under_way or spent + sum(under_way.values()) + amount[0] <= limit
            assert (changed is not None) == fits
            day = changed or day
            if changed:
                under_way.setdefault(key, Decimal(amount[0]))
        else:
            day = day.close(key, took_effect=step == "took")
            spent += under_way.pop(key, Decimal(0)) * (step == "took")
        assert day.used == spent + sum(under_way.values()) <= limit
        assert DaySpending.from_json(day.as_json()) == day


@pytest.mark.spec("G11", "W9")
def test_call_made_twice_spends_once_and_cents_are_not_lost() -> None:
    use = RunUse().spending("call-1", 0.1).spending("call-2", 0.2).spending("call-1", 0.1)
    assert use.spent == 0.3
    assert use.spent_without("call-1") == 0.2
    assert RunUse.from_json(use.as_json()) == use


class Replicas:
    workers = 2


@pytest.mark.spec("G11")
def test_replica_lets_through_its_share_and_not_one_call_more() -> None:
    replicas, codes = Replicas(), []
    slots = TenantSlots(replicas)
    with slots.taken("acme", 4), slots.taken("acme", 4):
        with pytest.raises(PlacetError) as caught, slots.taken("acme", 4):
            codes.append("inside")
        assert caught.value.code is ErrorCode.LIMIT_REACHED
        with slots.taken("globex", 4), slots.taken("acme", None):
            codes.append("others")
        replicas.workers = 1  # the other one has gone: its share is free
        with slots.taken("acme", 4):
            codes.append("third")
    with pytest.raises(RuntimeError), slots.taken("acme", 1):
        raise RuntimeError
    with slots.taken("acme", 1):
        codes.append("given back")
    assert codes == ["others", "third", "given back"]
