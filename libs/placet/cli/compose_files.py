"""Keys and passwords as docker-compose.yml mounts them."""

from __future__ import annotations

from pathlib import Path

from placet.cli import material

ADMIN = "postgres"
DATABASE = "placet"


def write(out: Path, database_host: str) -> list[Path]:
    """Make what is missing below `out`; returns every file that is there now.

    `out` is closed to other users (mode 0700) and the files are readable (0644): a container runs as a user of its
    own, and a mounted file keeps the mode that it has here.
    """
    out.mkdir(parents=True, exist_ok=True)
    out.chmod(0o700)
    made = material.ensure(out / "keys", out / "nats", out / "keys" / "database.json")
    admin = material.password(out / "keys" / "admin.password")
    for name, text in _environment_files(made.database, admin, database_host).items():
        path = out / "postgres" / f"{name}.env"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    files = sorted(path for path in out.rglob("*") if path.is_file())
    for file in files:
        file.chmod(0o644)
    return files


def _environment_files(passwords: dict[str, str], admin: str, host: str) -> dict[str, str]:
    def url(role: str, password: str, database: str) -> str:
        return f"postgresql://{role}:{password}@{host}/{database}"

    services = {"agent": "agent", "tool-executor": "executor", "approval": "approval"}
    files = {
        service: {"PLACET_DATABASE_URL": url(f"placet_{role}", passwords[role], DATABASE)}
        for service, role in services.items()
    }
    files["tool-executor"]["PLACET_READONLY_DATABASE_URL"] = url("placet_reader", passwords["reader"], DATABASE)
    # Provisioning makes the database itself, so that its owner is not the administrator.
    files["server"] = {"POSTGRES_USER": ADMIN, "POSTGRES_PASSWORD": admin, "POSTGRES_DB": ADMIN}
    files["provision"] = {"PLACET_DATABASE_ADMIN_URL": url(ADMIN, admin, ADMIN)} | {
        f"PLACET_DATABASE_{role.upper()}_PASSWORD": password for role, password in passwords.items()
    }
    return {name: "".join(f"{key}={value}\n" for key, value in values.items()) for name, values in files.items()}
