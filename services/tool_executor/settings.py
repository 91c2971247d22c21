"""Settings of the tool-executor: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All variables start with `PLACET_`. `pack_settings` is handed to the packs as it is (JSON object)."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", extra="ignore")

    nats_url: str
    nats_seed: str = ""
    nats_seed_file: Path | None = None
    health_port: int = 0
    health_host: str = "127.0.0.1"
    log_level: str = "INFO"
    database_url: str
    # As a role that may read a few views and nothing else; without it `run_readonly_sql` is not available.
    readonly_database_url: str = ""
    policy_engine: Literal["auto", "opa", "embedded"] = "auto"
    policy_dir: Path = Path("policies")
    opa_url: str = "http://127.0.0.1:8181"
    grant_public_file: Path
    approval_public_file: Path
    effect_signing_key_file: Path
    tool_executor_concurrency: int = 128
    tool_executor_effect_concurrency: int = 32
    # Deliveries of an approved call (with growing pauses) after which an open end becomes `unknown`.
    tool_executor_effect_attempts: int = 8
    # Seconds: how far apart the lookups of an effect whose outcome is unknown get, and how long after its claim a
    # call whose worker died is looked into.
    tool_executor_lookup_interval_s: float = 60
    tool_executor_abandoned_after_s: float = 30
    # Limits of one run; policy compares.
    tool_executor_run_tool_calls: int = 12
    tool_executor_run_spend: float = 5000
    # The largest file that is taken in, in bytes; how many are read at once; how often what died is taken up again (s).
    tool_executor_upload_bytes: int = 25_000_000
    tool_executor_readings_at_once: int = 2
    tool_executor_sweep_s: float = 60.0
    pack_settings: dict[str, str] = {}
