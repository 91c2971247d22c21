"""Settings of the gateway."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from services.gateway.settings import Settings

REQUIRED = {
    "PLACET_NATS_URL": "nats://127.0.0.1:4222",
    "PLACET_GATEWAY_ISSUER": "https://issuer.test",
    "PLACET_GATEWAY_AUDIENCE": "placet",
    "PLACET_GATEWAY_GRANT_KEY_FILE": "/keys/grant.private.jwk",
}


def read(monkeypatch: pytest.MonkeyPatch, **more: str) -> Settings:
    for name, value in {**REQUIRED, **more}.items():
        monkeypatch.setenv(name, value)
    return Settings()


def test_settings_with_one_key_source_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = read(monkeypatch, PLACET_GATEWAY_JWKS_FILE="/keys/jwks.json", PLACET_GATEWAY_PORT="9000")
    assert (settings.gateway_port, settings.gateway_audience) == (9000, "placet")


@pytest.mark.parametrize(
    "sources",
    [{}, {"PLACET_GATEWAY_JWKS_FILE": "/a", "PLACET_GATEWAY_JWKS_URL": "https://issuer.test/jwks"}],
)
def test_settings_without_exactly_one_key_source_are_refused(
    monkeypatch: pytest.MonkeyPatch, sources: dict[str, str]
) -> None:
    with pytest.raises(ValidationError, match="exactly one"):
        read(monkeypatch, **sources)


@pytest.mark.parametrize("name", list(REQUIRED))
def test_settings_without_a_required_value_are_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other, value in REQUIRED.items():
        monkeypatch.setenv(other, value)
    monkeypatch.setenv("PLACET_GATEWAY_JWKS_FILE", "/keys/jwks.json")
    monkeypatch.delenv(name)
    with pytest.raises(ValidationError):
        Settings()
