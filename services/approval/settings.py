"""Settings of the approval service: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All variables start with `PLACET_`."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", extra="ignore")

    nats_url: str
    nats_seed: str = ""
    nats_seed_file: Path | None = None
    health_port: int = 0
    health_host: str = "127.0.0.1"
    log_level: str = "INFO"
    database_url: str
    policy_engine: Literal["auto", "opa", "embedded"] = "auto"
    policy_dir: Path = Path("policies")
    opa_url: str = "http://127.0.0.1:8181"
    grant_public_file: Path
    effect_public_file: Path
    approval_signing_key_file: Path
    # Signs the seals of the record, and nothing else.
    audit_signing_key_file: Path
    # How often new events are sealed.
    approval_seal_interval_s: float = Field(default=5.0, gt=0)
    approval_concurrency: int = 128
