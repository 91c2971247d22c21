"""The policy files that an engine loads, and the digest that names them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath


class PolicyFilesError(ValueError):
    """The policy directory cannot be used."""


def read_policy_files(policy_dir: Path) -> dict[str, bytes]:
    """What an engine loads: rules without their tests, and `data.json` tables; by path relative to the directory.

    Raises `PolicyFilesError` when there is no rule at all.
    """
    files = {
        path.relative_to(policy_dir).as_posix(): path.read_bytes()
        for path in sorted(policy_dir.rglob("*"))
        if path.is_file() and _belongs(PurePosixPath(path.relative_to(policy_dir).as_posix()))
    }
    if not any(name.endswith(".rego") for name in files):
        raise PolicyFilesError(f"no policies in {policy_dir}")
    return files


def _belongs(path: PurePosixPath) -> bool:
    if path.parts[0] == "cases" or any(part.startswith(".") for part in path.parts):
        return False
    return path.name == "data.json" or (path.suffix == ".rego" and not path.stem.endswith("_test"))


def digest(files: Mapping[str, bytes]) -> str:
    """`sha256:...` over sorted names and contents, each with its length, so that no two sets of files share one."""
    state = hashlib.sha256()
    for name in sorted(files):
        for part in (name.encode(), files[name]):
            state.update(len(part).to_bytes(8, "big"))
            state.update(part)
    return f"sha256:{state.hexdigest()}"
