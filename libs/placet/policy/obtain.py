"""Get an `opa` binary: `python -m placet.policy.obtain [--state-dir .placet]` (what `make opa` runs).

In this order: one that is already there; built from the pinned Go module; a static release from
`PLACET_OPA_RELEASE_URL`, kept only if it has the digest `PLACET_OPA_RELEASE_SHA256` (hexadecimal).
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from placet.policy.opa_binary import OLDEST, PINNED, bin_dir, find_opa, suits

MODULE = "github.com/open-policy-agent/opa"
PINNED_FOR_OLDER_GO = "1.4.2"
"""The pinned version needs Go 1.26; this one builds with Go 1.23 and passes the same suite."""

BUILD_TIMEOUT_S = 1800
DOWNLOAD_TIMEOUT_S = 60
LARGEST_BINARY = 512 * 1024 * 1024


class ObtainError(RuntimeError):
    """No binary; the message says what to do."""


def obtain(state_dir: Path, environ: Mapping[str, str]) -> Path:
    """The path of a suitable binary. Raises `ObtainError`."""
    found = find_opa(state_dir)
    if found:
        return found
    target = bin_dir(state_dir.resolve()) / "opa"
    target.parent.mkdir(parents=True, exist_ok=True)
    go = shutil.which("go", path=environ.get("PATH"))
    if go:
        _build(Path(go), target, environ)
    else:
        _download(environ.get("PLACET_OPA_RELEASE_URL"), environ.get("PLACET_OPA_RELEASE_SHA256"), target)
    if not suits(target):
        raise ObtainError(f"{target} is no OPA of at least {'.'.join(map(str, OLDEST))}")
    return target


def _build(go: Path, target: Path, environ: Mapping[str, str]) -> None:
    settings = {**environ, "CGO_ENABLED": "0", "GOBIN": str(target.parent)}
    failures = []
    for version in (PINNED, PINNED_FOR_OLDER_GO):
        print(f"building opa {version} with {go} (some minutes)", file=sys.stderr)
        command = [str(go), "install", "-trimpath", "-ldflags=-s -w", f"{MODULE}@v{version}"]
        try:
            built = subprocess.run(
                command, env=settings, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            failures.append(f"{version}: more than {BUILD_TIMEOUT_S} s")
            continue
        if built.returncode == 0:
            return
        failures.append(f"{version}: {built.stderr.strip()[-500:]}")
    raise ObtainError("go could not build opa: " + " | ".join(failures))


def _download(url: str | None, checksum: str | None, target: Path) -> None:
    if not url:
        raise ObtainError(
            f"no opa, no go to build it with: install opa {PINNED}, or set PLACET_OPA_RELEASE_URL and "
            "PLACET_OPA_RELEASE_SHA256 to a static release and its digest"
        )
    if not checksum:
        raise ObtainError("PLACET_OPA_RELEASE_SHA256 is not set: a binary without a checksum is not run")
    if not url.startswith(("https://", "http://")):
        raise ObtainError(f"not an http(s) URL: {url}")
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".opa-", delete=False) as handle:
        unverified = Path(handle.name)
    try:
        actual = _fetch(url, unverified)
        if actual != checksum.strip().lower():
            raise ObtainError(f"{url} has the digest {actual}, not the expected {checksum}")
        unverified.chmod(0o755)
        unverified.replace(target)
    except OSError as error:
        raise ObtainError(f"{url}: {error}") from error
    finally:
        unverified.unlink(missing_ok=True)


def _fetch(url: str, into: Path) -> str:
    """Writes the answer to `into` and returns its sha256. Raises `OSError`, `ObtainError` when it is too large."""
    state = hashlib.sha256()
    size = 0
    # The scheme was checked above, and nothing runs before its digest was compared.
    with urllib.request.urlopen(url, timeout=DOWNLOAD_TIMEOUT_S) as answer, into.open("wb") as file:  # noqa: S310
        while block := answer.read(1 << 20):
            size += len(block)
            if size > LARGEST_BINARY:
                raise ObtainError(f"{url} is larger than {LARGEST_BINARY} bytes")
            state.update(block)
            file.write(block)
    return state.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m placet.policy.obtain", description=__doc__)
    parser.add_argument("--state-dir", type=Path, default=Path(os.environ.get("PLACET_STATE_DIR", ".placet")))
    try:
        print(obtain(parser.parse_args().state_dir, os.environ))  # the path is this command's output
    except ObtainError as error:
        sys.exit(f"opa: {error}")


if __name__ == "__main__":
    main()
