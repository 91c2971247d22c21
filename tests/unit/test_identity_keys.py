"""Keys on disk: private for their owner alone, made once, read back the same."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from joserfc.jwk import OKPKey

from placet.contracts.directory import Person
from placet.identity import keys
from placet.identity.directory import nobody


def test_pair_written_twice_stays_the_same(tmp_path: Path) -> None:
    first = keys.write_pair(tmp_path, "approval")
    again = keys.write_pair(tmp_path, "approval")
    assert first.as_dict(private=True) == again.as_dict(private=True)


def test_private_key_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    keys.write_pair(tmp_path, "approval")
    assert stat.S_IMODE((tmp_path / "approval.private.jwk").stat().st_mode) == 0o600


def test_public_key_file_holds_no_private_part(tmp_path: Path) -> None:
    key = keys.write_pair(tmp_path, "approval")
    public = json.loads((tmp_path / "approval.public.jwk").read_text(encoding="utf-8"))
    assert "d" not in public
    assert public["kid"] == key.kid
    assert keys.read(tmp_path / "approval.public.jwk").kid == key.kid


def test_key_set_holds_no_private_part() -> None:
    document = keys.key_set(keys.generate(), keys.generate()).as_dict()
    assert len(document["keys"]) == 2
    assert all("d" not in entry for entry in document["keys"])


def test_keys_generated_are_different() -> None:
    assert keys.generate().kid != keys.generate().kid


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"kty":"OKP"}', '{"kty":"EC","crv":"P-256"}', "null"])
def test_key_file_that_holds_no_key_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.jwk"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"no Ed25519 key"):
        keys.read(path)


def test_key_file_of_another_curve_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agreement.jwk"
    path.write_text(json.dumps(OKPKey.generate_key("X25519").as_dict(private=True)), encoding="utf-8")
    with pytest.raises(ValueError, match=r"another curve"):
        keys.read(path)


def test_key_file_absent_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        keys.read(tmp_path / "absent.jwk")


@pytest.mark.spec("I1")
@pytest.mark.parametrize("person_id", ["zoe", "用户", "a.b", "*", "a\n", "", "x" * 65, "auth0|123", "a b"])
def test_nobody_is_inactive_and_without_rights_whatever_the_id(person_id: str) -> None:
    unknown = nobody("acme", person_id)
    assert unknown == Person(id=unknown.id, tenant="acme", active=False)
    assert unknown.id == (person_id if person_id == "zoe" else "unknown")
