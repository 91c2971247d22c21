"""Settings of the memory service: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path

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
    grant_public_file: Path
    memory_concurrency: int = 64
