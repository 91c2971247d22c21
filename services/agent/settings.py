"""Settings of the agent service: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All variables start with `PLACET_`. Without `agent_model_base_url` the offline model is used."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", extra="ignore", env_ignore_empty=True)

    nats_url: str
    nats_seed: str = ""
    nats_seed_file: Path | None = None
    health_port: int = 0
    health_host: str = "127.0.0.1"
    log_level: str = "INFO"
    database_url: str
    grant_public_file: Path
    approval_public_file: Path

    agent_model_base_url: str | None = None
    agent_model: str = "gpt-4o-mini"
    agent_api_key: SecretStr = SecretStr("")
    agent_model_timeout_s: float = 60.0
    agent_model_judges: bool = True

    agent_concurrency: int = 32
    agent_database_pool: int = 8
    agent_checkpoint_key_file: Path | None = None

    agent_max_steps: int = 8
    agent_max_tool_calls: int = 12
    agent_max_tokens: int = 60_000
    agent_max_wall_s: float = 120.0
    agent_max_parallel: int = 4
    agent_token_price: float = 0.0
    agent_tenant_cost_per_day: float = 0.0

    agent_lease_ttl_s: int = 6
    agent_lease_renew_s: float = 1.5
    agent_max_failures: int = 6
    agent_outage_s: float = 90.0
