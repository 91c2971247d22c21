"""Which images are built, in which order: first what comes from registries, then what stands on it, two at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import base
import service_images
import stand_ins
from client import Client, ClientError
from names import BASE, SERVICES, STAND_INS, image_of
from wheelhouse import Wheelhouse

_T = TypeVar("_T")
_WORKERS = 2
_BUILDERS = {"nats": stand_ins.build_nats, "opa": stand_ins.build_opa, "postgres": stand_ins.build_postgres}


def build_images(client: Client, only: Sequence[str]) -> None:
    """Build the named images, or all of them. Raises `ClientError` with the first step that failed."""
    unknown = set(only) - {*STAND_INS, *SERVICES}
    if unknown:
        raise ClientError(f"no such image: {', '.join(sorted(unknown))}")
    wanted = [name for name in (*STAND_INS, *SERVICES) if not only or name in only]
    services = [name for name in wanted if name in SERVICES]
    began = time.monotonic()
    wheels = Wheelhouse()
    with ThreadPoolExecutor(_WORKERS) as pool:
        sources = [pool.submit(_timed, BASE, base.build, client)]
        if services:
            sources.append(pool.submit(_timed, "wheelhouse", wheels.fill, services))
        for source in sources:
            source.result()

        def build(name: str) -> None:
            builder = _BUILDERS.get(name) or service_images.builder(name, wheels)
            _timed(image_of(name), builder, client)

        for _ in pool.map(build, wanted):
            pass
    print(f"images: {len(wanted)} ready after {time.monotonic() - began:.0f} s", flush=True)


def _timed(name: str, step: Callable[[_T], str], argument: _T) -> None:
    began = time.monotonic()
    outcome = step(argument)
    print(f"images: {name}: {outcome} ({time.monotonic() - began:.1f} s)", flush=True)
