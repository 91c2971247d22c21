"""Makes a database cluster: once per home, whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from placet.storage.embedded.account import Account
from placet.storage.embedded.binaries import binaries
from placet.storage.embedded.errors import EmbeddedPostgresError

ADMIN = "postgres"
DATA = "data"
PASSWORD_FILE = "admin.password"  # noqa: S105 (the name of the file that holds it)


def create_cluster(home: Path, account: Account | None) -> None:
    """Build the cluster beside its place and rename it in: an interrupted attempt leaves nothing half done.

    The administrator's password is random and goes into `home/admin.password`, readable by us alone.
    Raises EmbeddedPostgresError.
    """
    staging = home / f"{DATA}.new"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(mode=0o700)
    password = secrets.token_urlsafe(32)
    _write_secret(home / PASSWORD_FILE, password)
    handed_over = home / "initdb.password"
    _write_secret(handed_over, password)
    if account is not None:
        os.chown(staging, account.uid, account.gid)
        os.chown(handed_over, account.uid, account.gid)
    try:
        _initdb(staging, handed_over, account)
    finally:
        handed_over.unlink()
    staging.rename(home / DATA)


def _initdb(target: Path, password_file: Path, account: Account | None) -> None:
    # The builtin C.UTF-8 provider sorts the same on every machine, whatever locales are installed.
    locale = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
    access = ["-U", ADMIN, "--auth=scram-sha-256", f"--pwfile={password_file}"]
    done = subprocess.run(
        [str(binaries() / "initdb"), "-D", str(target), *access, *locale],
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if done.returncode != 0:
        raise EmbeddedPostgresError(f"initdb failed: {done.stderr.strip()[-2000:]}")


def _write_secret(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text + "\n")
