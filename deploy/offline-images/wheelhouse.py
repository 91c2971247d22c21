"""Wheels for the image builds, fetched on the host with pip from the locked requirements, every hash checked.

One pool holds the wheels of all services. A package that comes as source only is built here once; the requirement file
that travels with the wheels then names the hash of that wheel, so that the install inside the image is checked as well.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from client import Member, checked
from content import CACHE
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

LOCKS = Path("requirements")
BUILD_TOOLS = "build"
FOLDER = "wheelhouse"


@dataclass(frozen=True, slots=True)
class Pin:
    """One locked package: its name, its version, and its lines in the lock file."""

    name: str
    version: str
    text: str


def pins_of(lock: Path) -> list[Pin]:
    """What a lock file installs on this machine: entries whose marker does not hold are left out."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pins = []
    for entry in text.replace("\\\n", " ").splitlines():
        if not entry.strip():
            continue
        requirement = Requirement(entry.split(" --hash=")[0].strip())
        if requirement.marker is None or requirement.marker.evaluate():
            version = str(requirement.specifier).removeprefix("==")
            pins.append(Pin(canonicalize_name(requirement.name), version, entry))
    return pins


class Wheelhouse:
    """The pool of wheels under the cache folder."""

    def __init__(self, pool: Path = CACHE / "wheels") -> None:
        self._pool = pool

    def fill(self, services: Iterable[str]) -> str:
        """Fetch the wheels these services and the build tools still lack. Raises `ClientError`, also on a bad hash."""
        fetched = 0
        for name in (BUILD_TOOLS, *services):
            have = self._have()
            missing = [pin for pin in pins_of(LOCKS / f"{name}.txt") if (pin.name, pin.version) not in have]
            if missing:
                self._fetch(missing)
            fetched += len(missing)
        return f"{fetched} wheels fetched" if fetched else "up to date"

    def members(self, service: str) -> list[Member]:
        """The wheels of the build tools and of one service, each in a folder of the build context."""
        return [*self._folder(BUILD_TOOLS), *self._folder(service)]

    def _folder(self, name: str) -> list[Member]:
        have = self._have()
        pins = pins_of(LOCKS / f"{name}.txt")
        wheels = {pin: have[pin.name, pin.version] for pin in pins}
        requirements = self._pool / f"{name}.txt"
        lines = [f"{pin.name}=={pin.version} --hash=sha256:{_sha256(wheel)}\n" for pin, wheel in wheels.items()]
        requirements.write_text("".join(lines), encoding="utf-8")
        members = [(wheel, f"{FOLDER}/{name}/{wheel.name}") for wheel in wheels.values()]
        return [(requirements, f"{FOLDER}/{name}/wheels.txt"), *members]

    def _fetch(self, pins: list[Pin]) -> None:
        self._pool.mkdir(parents=True, exist_ok=True)
        missing = self._pool / "missing.txt"
        missing.write_text("\n".join(pin.text for pin in pins) + "\n", encoding="utf-8")
        argv = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--require-hashes"]
        checked([*argv, "--wheel-dir", str(self._pool), "--requirement", str(missing)])
        missing.unlink()

    def _have(self) -> dict[tuple[str, str], Path]:
        wheels = {}
        for path in self._pool.glob("*.whl"):
            name, version, _, _ = parse_wheel_filename(path.name)
            wheels[str(name), str(version)] = path
        return wheels


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
