"""Bearer tokens: who is asking, proven by a key of the issuer; what they may do is never read from a token (I1)."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, OKPKey, RSAKey

from placet.contracts.errors import ErrorCode, PlacetError
from placet.identity import keys, tokens
from placet.identity.tokens import LocalIssuer, Principal, TokenVerifier, jwks_from_file
from placet.testkit.builders import AUDIENCE, ISSUER, Keys

KEYS = Keys()
OTHERS = Keys()


class Jwks:
    """An issuer's key set that can be changed and taken away; counts how often it was asked."""

    def __init__(self, *signing: Any) -> None:
        self.document: Any = {"keys": [key.as_dict(private=False) for key in signing]}
        self.down = False
        self.asked = 0

    async def __call__(self) -> dict[str, Any]:
        self.asked += 1
        if self.down:
            raise ConnectionRefusedError("the issuer is down")
        document: dict[str, Any] = self.document
        return document


def _verifier(jwks: Jwks | None = None) -> TokenVerifier:
    return TokenVerifier(jwks or Jwks(KEYS.issuer), ISSUER, AUDIENCE)


def _claims(**changes: Any) -> dict[str, Any]:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "tenant": "acme", "iat": now, "exp": now + 60}
    return {key: value for key, value in (claims | changes).items() if value is not None}


def _token(key: OKPKey = KEYS.issuer, kid: str | None = None, **changes: Any) -> str:
    header = {"alg": "Ed25519", "kid": kid or str(key.kid)}
    return jwt.encode(header, _claims(**changes), key, algorithms=["Ed25519"])


async def _refused(token: str, verifier: TokenVerifier | None = None) -> None:
    with pytest.raises(PlacetError) as caught:
        await (verifier or _verifier()).verify(token)
    assert caught.value.code is ErrorCode.UNAUTHENTICATED
    assert caught.value.message == "A valid bearer token is required."


@pytest.mark.spec("I1")
async def test_token_of_the_issuer_names_tenant_and_subject() -> None:
    token = KEYS.local_issuer().issue("acme", "alice")
    assert await _verifier().verify(token) == Principal(tenant="acme", subject="alice")


@pytest.mark.spec("I1")
async def test_token_with_role_claims_yields_only_who() -> None:
    principal = await _verifier().verify(
        _token(roles=["admin"], groups=["c_level"], clearance=10, scope="*", active=True, teams=["finance"])
    )
    assert principal == Principal(tenant="acme", subject="alice")
    assert set(Principal.__dataclass_fields__) == {"tenant", "subject"}


@pytest.mark.spec("I1")
@pytest.mark.parametrize(
    "changes",
    [
        {"exp": int(time.time()) - 3600},
        {"exp": None},
        {"exp": "tomorrow"},
        {"nbf": int(time.time()) + 3600},
        {"aud": "another"},
        {"aud": None},
        {"iss": "https://evil.test"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": ["alice"]},
        {"sub": 7},
        {"tenant": None},
        {"tenant": ""},
        {"tenant": {"id": "acme"}},
    ],
    ids=lambda changes: "-".join(f"{key}={value}" if isinstance(value, str) else key for key, value in changes.items()),
)
async def test_token_with_a_wrong_claim_is_refused(changes: dict[str, Any]) -> None:
    await _refused(_token(**changes))


@pytest.mark.spec("I1")
async def test_token_for_several_audiences_with_ours_among_them_is_accepted() -> None:
    assert (await _verifier().verify(_token(aud=["other", AUDIENCE]))).subject == "alice"


@pytest.mark.spec("I1")
async def test_token_of_an_unknown_key_is_refused() -> None:
    await _refused(_token(OTHERS.issuer))


@pytest.mark.spec("I1")
async def test_token_forged_under_a_known_key_id_is_refused() -> None:
    await _refused(_token(OTHERS.issuer, kid=str(KEYS.issuer.kid)))


@pytest.mark.spec("I1")
async def test_token_with_changed_subject_is_refused() -> None:
    head, body, signature = _token().split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "==")) | {"sub": "dave"}
    changed = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    await _refused(f"{head}.{changed}.{signature}")


@pytest.mark.spec("I1")
async def test_token_without_signature_is_refused() -> None:
    part = base64.urlsafe_b64encode(json.dumps(_claims()).encode()).rstrip(b"=").decode()
    for algorithm in ("none", "None", "Ed25519"):
        header = {"alg": algorithm, "kid": KEYS.issuer.kid}
        head = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
        await _refused(f"{head}.{part}.")


@pytest.mark.spec("I1")
async def test_token_signed_with_the_public_key_as_shared_secret_is_refused() -> None:
    """The classical confusion: HS256 with the issuer's public key as the secret."""
    public = json.dumps(KEYS.issuer.as_dict(private=False))
    shared = OctKey.import_key(public)
    token = jwt.encode({"alg": "HS256", "kid": str(KEYS.issuer.kid)}, _claims(), shared, algorithms=["HS256"])
    await _refused(token)


async def test_token_of_an_rsa_issuer_is_accepted() -> None:
    key = RSAKey.generate_key(2048, private=True)
    key.ensure_kid()
    token = jwt.encode({"alg": "RS256", "kid": str(key.kid)}, _claims(), key, algorithms=["RS256"])
    assert (await _verifier(Jwks(key)).verify(token)).subject == "alice"


@pytest.mark.parametrize("token", ["", "..", "a.b.c", "é.é.é", "Bearer x", "\x00", "x" * 20_000, "[" * 16_000])
async def test_token_that_is_none_is_refused(token: str) -> None:
    await _refused(token)


async def test_token_with_a_deeply_nested_header_is_refused() -> None:
    await _refused(base64.urlsafe_b64encode(b"[" * 12_000).decode().rstrip("=")[:16_000] + ".e30.AA")


async def test_keys_are_fetched_once_for_many_tokens() -> None:
    jwks = Jwks(KEYS.issuer)
    verifier = _verifier(jwks)
    for _ in range(5):
        await verifier.verify(_token())
    assert jwks.asked == 1


@pytest.mark.spec("I1")
async def test_new_key_of_the_issuer_is_found_without_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_MIN_REFRESH_S", 0.0)
    jwks = Jwks(KEYS.issuer)
    verifier = _verifier(jwks)
    await verifier.verify(_token())
    jwks.document = Jwks(OTHERS.issuer).document
    assert (await verifier.verify(_token(OTHERS.issuer))).subject == "alice"
    await _refused(_token(KEYS.issuer), verifier)


async def test_unknown_keys_do_not_flood_the_issuer() -> None:
    jwks = Jwks(KEYS.issuer)
    verifier = _verifier(jwks)
    for _ in range(10):
        await _refused(_token(OTHERS.issuer), verifier)
    assert jwks.asked == 1


async def test_issuer_down_leaves_known_keys_working(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_REFRESH_S", 0.0)
    jwks = Jwks(KEYS.issuer)
    verifier = _verifier(jwks)
    await verifier.verify(_token())
    jwks.down = True
    for _ in range(5):
        assert (await verifier.verify(_token())).subject == "alice"
    assert jwks.asked == 2, "an issuer that is down must not be asked for every request"


async def test_issuer_down_from_the_start_refuses_then_recovers() -> None:
    jwks = Jwks(KEYS.issuer)
    jwks.down = True
    verifier = _verifier(jwks)
    await _refused(_token(), verifier)
    jwks.down = False
    assert (await verifier.verify(_token())).subject == "alice"


@pytest.mark.parametrize("document", [{}, [], {"keys": {}}, {"keys": [1]}, {"keys": [{"kty": "??"}]}, {"keys": []}])
async def test_unusable_key_set_refuses_every_token(document: Any) -> None:
    jwks = Jwks()
    jwks.document = document
    await _refused(_token(), _verifier(jwks))


async def test_key_file_is_read_as_the_issuers_keys(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(keys.key_set(KEYS.issuer).as_dict(private=False)), encoding="utf-8")
    verifier = TokenVerifier(jwks_from_file(path), ISSUER, AUDIENCE)
    assert (await verifier.verify(_token())).tenant == "acme"
    await _refused(_token(), TokenVerifier(jwks_from_file(tmp_path / "absent.json"), ISSUER, AUDIENCE))


async def test_local_issuer_states_the_lifetime_it_was_asked_for() -> None:
    issuer = LocalIssuer(KEYS.issuer, ISSUER, AUDIENCE)
    await _refused(issuer.issue("acme", "alice", lifetime_s=-3600))


@pytest.mark.parametrize("header", [{"crit": 5}, {"crit": ["b64"]}, {"kid": 7}, {"alg": 3}, {"typ": []}, []])
async def test_header_of_wrong_json_types_is_unauthenticated_not_a_fault(header: Any) -> None:
    fields = {"alg": "Ed25519", **header} if isinstance(header, dict) else header
    first = base64.urlsafe_b64encode(json.dumps(fields).encode()).decode().rstrip("=")
    await _refused(f"{first}.{_token().split('.', 1)[1]}", _verifier(Jwks(KEYS.issuer)))
