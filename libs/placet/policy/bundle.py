"""Policy files as one revisioned bundle: `python -m placet.policy.bundle policies out` writes `out/bundle.tar.gz`.

One file, replaced by rename: OPA watching a *directory* takes up the files one by one and meanwhile answers with the
new rules under the old revision (17 of 30 changes seen); with one archive a decision and its revision never part.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

BUNDLE_NAME = "bundle.tar.gz"
ROOTS = ("",)
"""The bundle owns everything, so nobody can add rules or data to a running OPA over its API."""


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


def build_bundle(policy_dir: Path, out_dir: Path) -> str:
    """Writes `out_dir/bundle.tar.gz` and returns its revision. The same files give the same bytes.

    Raises `PolicyFilesError` when there is nothing to bundle, `OSError` when it cannot be written.
    """
    files = read_policy_files(policy_dir)
    revision = digest(files)
    manifest = json.dumps({"revision": revision, "roots": list(ROOTS), "rego_version": 1}).encode()
    archive = _archive({".manifest": manifest, **files})
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=out_dir, prefix=".bundle-", delete=False) as handle:
        handle.write(archive)
        os.fchmod(handle.fileno(), 0o644)
    Path(handle.name).replace(out_dir / BUNDLE_NAME)
    return revision


def _archive(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m placet.policy.bundle", description=__doc__)
    parser.add_argument("policy_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    options = parser.parse_args()
    print(build_bundle(options.policy_dir, options.out_dir))  # the revision is this command's output


if __name__ == "__main__":
    main()
