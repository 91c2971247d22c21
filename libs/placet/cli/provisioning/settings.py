"""Settings of `placet provision`: the only place where it reads the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """All variables start with `PLACET_`. Passwords are those the database roles get, not ones they already have."""

    model_config = SettingsConfigDict(env_prefix="PLACET_", extra="ignore")

    nats_url: str
    nats_seed: str = ""
    nats_seed_file: Path | None = None
    nats_replicas: int = 1
    database_admin_url: str
    database_name: str = "placet"
    database_owner_password: str
    database_executor_password: str
    database_agent_password: str
    database_approval_password: str
    database_reader_password: str
    seed_demo: bool = False
    # As the executor gets them: documents must be taken in with the model with which they are searched.
    pack_settings: dict[str, str] = {}
    log_level: str = "INFO"

    def passwords(self) -> dict[str, str]:
        """Database role -> password."""
        return {
            "placet_owner": self.database_owner_password,
            "placet_executor": self.database_executor_password,
            "placet_agent": self.database_agent_password,
            "placet_approval": self.database_approval_password,
            "placet_reader": self.database_reader_password,
        }
