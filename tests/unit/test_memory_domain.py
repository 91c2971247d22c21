"""Whose summary lies where (M1, I4)."""

from __future__ import annotations

import pytest

from placet.contracts.errors import ErrorCode, PlacetError
from services.memory.domain import Place


@pytest.mark.spec("M1", "I4")
def test_place_of_another_tenant_person_or_conversation_is_another_key() -> None:
    places = [
        Place("acme", "alice", "c1"),
        Place("globex", "alice", "c1"),
        Place("acme", "bob", "c1"),
        Place("acme", "alice", "c2"),
    ]
    assert len({place.key() for place in places}) == 4
    assert Place("acme", "alice", "c1").key() == places[0].key()


@pytest.mark.spec("M1")
@pytest.mark.parametrize("conversation", ["x.y", "*", ">", "a b", "会话", "x" * 500])
def test_conversation_id_of_any_shape_is_one_token_of_the_key(conversation: str) -> None:
    key = Place("acme", "alice", conversation).key()
    assert key.startswith("acme.alice.")
    assert key.count(".") == 2
    assert set(key.rsplit(".", 1)[1]) <= set("0123456789abcdef")


@pytest.mark.spec("M1", "I3")
@pytest.mark.parametrize("actor", ["a.b", "*", "", "a b"])
def test_person_whose_id_would_widen_the_key_is_not_found(actor: str) -> None:
    with pytest.raises(PlacetError) as raised:
        Place("acme", actor, "c1").key()
    assert raised.value.code is ErrorCode.NOT_FOUND
