"""Settings of the gateway: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All variables start with `PLACET_`. Times are in seconds."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", env_ignore_empty=True, extra="ignore")

    nats_url: str
    nats_seed: str = ""
    nats_seed_file: Path | None = None
    log_level: str = "INFO"

    gateway_host: str = "127.0.0.1"
    gateway_port: int = Field(default=8080, ge=0, le=65_535)
    # Whose tokens are taken: exactly one source of keys, and what `iss` and `aud` must say.
    gateway_jwks_file: Path | None = None
    gateway_jwks_url: str | None = None
    gateway_issuer: str
    gateway_audience: str
    # The private key that signs grants. Only the gateway has it.
    gateway_grant_key_file: Path

    # How long `POST /api/chat` waits for an answer before it says "running".
    gateway_chat_wait_s: float = Field(default=30.0, gt=0)
    # How often an idle event stream says that it is alive.
    gateway_heartbeat_s: float = Field(default=15.0, gt=0)
    # How long a publish decision waits for the publishing itself.
    gateway_publish_wait_s: float = Field(default=10.0, gt=0)
    # The largest file that is taken, in bytes, and how many may arrive at once; each needs that much temporary space.
    gateway_upload_bytes: int = Field(default=25_000_000, ge=1)
    gateway_uploads_at_once: int = Field(default=8, ge=1)
    # How long the next bytes of a file may keep its place waiting, and how long all of them.
    gateway_upload_silence_s: float = Field(default=30.0, gt=0)
    gateway_upload_wait_s: float = Field(default=600.0, gt=0)
    # How long open requests may take to finish after SIGTERM.
    gateway_grace_s: int = Field(default=20, ge=1)

    @model_validator(mode="after")
    def _one_key_source(self) -> Self:
        if (self.gateway_jwks_file is None) == (self.gateway_jwks_url is None):
            raise ValueError("set exactly one of PLACET_GATEWAY_JWKS_FILE and PLACET_GATEWAY_JWKS_URL")
        return self
