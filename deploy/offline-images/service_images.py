"""The images of our own services: deploy/docker/Dockerfile with the offline base and a filled wheelhouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import base
from client import Client, Member
from content import content_key
from names import BASE, image_of
from wheelhouse import Wheelhouse

_DOCKERFILE = "deploy/docker/Dockerfile"
_SOURCES = ("pyproject.toml", "README.md", "libs", "services", "policies", "seeds", "deploy/docker")


def builder(service: str, wheels: Wheelhouse) -> Callable[[Client], str]:
    """How to build this service's image, with these wheels at hand."""

    def build(client: Client) -> str:
        sources = [Path(name) for name in (*_SOURCES, "requirements/build.txt", f"requirements/{service}.txt")]
        key = content_key(sources, service, base.key())
        name = image_of(service)
        if client.has_image(name) and client.key_of(name) == key:
            return "up to date"
        members: list[Member] = [(path, str(path)) for path in sources]
        members += wheels.members(service)
        client.build(name, key, _DOCKERFILE, members, SERVICE=service, BASE_IMAGE=BASE)
        return "built"

    return build
