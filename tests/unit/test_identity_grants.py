"""Run grants: only a genuine, current grant of this tenant, purpose and run is accepted (I2)."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable

import pytest
from joserfc import jws, jwt

from placet.contracts.errors import ErrorCode, PlacetError
from placet.identity.grants import LEEWAY_S, Purpose
from placet.testkit.builders import TENANT, Keys, grant

KEYS = Keys()
OTHERS = Keys()
VERIFIER = KEYS.grants()
TYPE = "placet-grant+jws"


def _refused(token: str, **expected: object) -> None:
    with pytest.raises(PlacetError) as caught:
        VERIFIER.verify(token, **({"tenant": TENANT} | expected))  # type: ignore[arg-type]
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert caught.value.message == "The grant is not valid for this call."


def _signed(claims: object, header: dict[str, object] | None = None) -> str:
    head = {"alg": "Ed25519", "typ": TYPE, "kid": KEYS.grant.kid} | (header or {})
    return jws.serialize_compact(head, json.dumps(claims), KEYS.grant, algorithms=["Ed25519"])


def _claims(**changes: object) -> dict[str, object]:
    return {
        "tenant": TENANT,
        "actor": "alice",
        "purpose": "run",
        "request_id": "req-1",
        "exp": int(time.time()) + 60,
        "run_id": "run-1",
    } | changes


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.mark.spec("I2")
def test_grant_genuine_and_current_is_read_back() -> None:
    token = grant(KEYS.mint(), "alice", run_id="run-7", request_id="req-7")
    read = VERIFIER.verify(token, TENANT, purpose=Purpose.RUN, run_id="run-7")
    assert (read.tenant, read.actor, read.purpose, read.run_id) == (TENANT, "alice", Purpose.RUN, "run-7")
    assert read.request_id == "req-7"
    assert read.expires > time.time() + 3500


@pytest.mark.spec("I2")
def test_grant_built_like_a_minted_one_is_accepted() -> None:
    """Guards the forgeries below: what they start from would be accepted."""
    assert VERIFIER.verify(_signed(_claims()), TENANT).actor == "alice"


@pytest.mark.spec("I2")
def test_grant_expired_is_refused() -> None:
    _refused(grant(KEYS.mint(), lifetime_s=-LEEWAY_S - 1))


def test_grant_expired_within_clock_difference_is_accepted() -> None:
    assert VERIFIER.verify(grant(KEYS.mint(), lifetime_s=-240), TENANT).actor == "alice"


@pytest.mark.spec("I2", "I4")
@pytest.mark.parametrize(
    "expected",
    [{"tenant": "globex"}, {"purpose": Purpose.REQUEST}, {"run_id": "run-2"}],
    ids=["other tenant", "other purpose", "other run"],
)
def test_grant_for_something_else_is_refused(expected: dict[str, object]) -> None:
    _refused(grant(KEYS.mint(), run_id="run-1"), **expected)


@pytest.mark.spec("I2")
def test_grant_without_run_is_refused_where_a_run_is_asked() -> None:
    _refused(grant(KEYS.mint(), run_id=None), run_id="run-1")


@pytest.mark.spec("I2")
def test_grant_signed_by_another_key_is_refused() -> None:
    _refused(grant(OTHERS.mint()))


@pytest.mark.spec("I2")
def test_grant_signed_by_another_key_under_our_key_id_is_refused() -> None:
    header = {"alg": "Ed25519", "typ": TYPE, "kid": KEYS.grant.kid}
    _refused(jws.serialize_compact(header, json.dumps(_claims()), OTHERS.grant, algorithms=["Ed25519"]))


@pytest.mark.spec("I2")
@pytest.mark.parametrize(
    "change",
    [{"tenant": TENANT}, {"actor": "dave"}, {"run_id": "run-2"}, {"purpose": "request"}, {"exp": 9_999_999_999}],
    ids=lambda change: next(iter(change)),
)
def test_grant_with_a_changed_claim_is_refused(change: dict[str, object]) -> None:
    """A genuine grant of globex, one claim rewritten: even where the new one would fit, the signature does not."""
    head, body, signature = grant(KEYS.mint(), tenant="globex").split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = _part(claims | change)
    assert changed != body
    with pytest.raises(PlacetError):
        VERIFIER.verify(f"{head}.{changed}.{signature}", str(change.get("tenant", "globex")))


@pytest.mark.spec("I2")
@pytest.mark.parametrize("algorithm", ["none", "None", "HS256"])
def test_grant_with_a_weak_algorithm_is_refused(algorithm: str) -> None:
    header = {"alg": algorithm, "typ": TYPE, "kid": KEYS.grant.kid}
    for signature in ("", "AAAA"):
        _refused(f"{_part(header)}.{_part(_claims())}.{signature}")


@pytest.mark.spec("I2")
@pytest.mark.parametrize("type_", ["JWT", "at+jwt", None, "placet-grant"])
def test_grant_typed_as_something_else_is_refused(type_: str | None) -> None:
    """The same key and claims under another `typ`: a token minted for another use is no grant."""
    _refused(_signed(_claims(), {"typ": type_} if type_ else {"typ": ""}))


@pytest.mark.spec("I2")
def test_grant_replaced_by_a_login_token_of_the_same_key_is_refused() -> None:
    header = {"alg": "Ed25519", "kid": KEYS.grant.kid}
    _refused(jwt.encode(header, _claims(sub="alice"), KEYS.grant, algorithms=["Ed25519"]))


@pytest.mark.parametrize(
    "claims",
    [
        [],
        "text",
        {},
        _claims(purpose="admin"),
        _claims(purpose=["run"]),
        _claims(exp="soon"),
        _claims(exp=float("inf")),
        {key: value for key, value in _claims().items() if key != "actor"},
        {key: value for key, value in _claims().items() if key != "exp"},
    ],
)
def test_grant_genuinely_signed_but_malformed_is_refused(claims: object) -> None:
    _refused(_signed(claims))


@pytest.mark.parametrize(
    "token",
    ["", ".", "..", "a.b.c", "é.é.é", "\ud800.a.b", "a\x00.b.c", "x" * 5000, _part([]) + ".e30.AA", "." * 4000],
)
def test_grant_that_is_no_token_is_refused(token: str) -> None:
    _refused(token)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_grant_with_a_deeply_nested_header_is_refused(opening: str) -> None:
    header = base64.urlsafe_b64encode(opening.encode() * (3000 // len(opening))).decode().rstrip("=")
    _refused(f"{header[:4000]}.e30.AA")


def test_grant_longer_than_the_limit_is_refused_although_genuine() -> None:
    make: Callable[[int], str] = lambda length: grant(KEYS.mint(), request_id="r" * length)  # noqa: E731
    assert VERIFIER.verify(make(1000), TENANT).actor == "alice"
    _refused(make(4096))
