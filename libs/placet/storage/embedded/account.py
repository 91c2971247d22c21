"""The unprivileged system user the server runs as when we are root: PostgreSQL refuses to run as root."""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

ACCOUNT_NAME = "placet-pg"
FALLBACK_NAME = "nobody"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """A system user."""

    name: str
    uid: int
    gid: int


def server_account() -> Account | None:
    """The user to switch to, created on first use; None when we are not root and need not switch.

    Falls back to `nobody` on machines without `useradd` (minimal images).
    """
    if os.geteuid() != 0:
        return None
    return _find(ACCOUNT_NAME) or _create() or _find(FALLBACK_NAME)


def _find(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def _create() -> Account | None:
    useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if useradd is None:
        return None
    nologin = shutil.which("nologin", path="/usr/sbin:/sbin:/usr/bin") or "/bin/false"
    subprocess.run(
        [
            useradd,
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            "/nonexistent",
            "--shell",
            nologin,
            ACCOUNT_NAME,
        ],
        check=False,  # lost race with another starter, or a read-only /etc: the look-up below decides
        capture_output=True,
    )
    return _find(ACCOUNT_NAME)


def open_way(path: Path, account: Account) -> None:
    """Let `account` pass through the parents of `path`: adds the search bit (`o+x`, never read) where it is missing."""
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH and not _owns(parent, account):
            _log.warning("chmod o+x %s: the database user must pass through it", parent)
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _owns(path: Path, account: Account) -> bool:
    info = path.stat()
    by_user = info.st_uid == account.uid and bool(info.st_mode & stat.S_IXUSR)
    by_group = info.st_gid == account.gid and bool(info.st_mode & stat.S_IXGRP)
    return by_user or by_group
