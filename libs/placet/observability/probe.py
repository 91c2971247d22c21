"""Asks a service whether it is ready: the health check of the images, which hold no curl.

Standard library only, because it runs every few seconds beside the service and must start fast.
`python -m placet.observability.probe` asks the service of this container, `… probe URL` any other.
"""

from __future__ import annotations

import argparse
import http.client
import os
import sys
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

_TIMEOUT_S = 3.0


def own_url(environment: Mapping[str, str]) -> str:
    """The readiness address of this container: the health port, or the gateway's own HTTP port.

    Raises `ValueError` when neither is set (or is 0, which means "no health server").
    """
    for name in ("PLACET_HEALTH_PORT", "PLACET_GATEWAY_PORT"):
        port = environment.get(name, "0")
        if port != "0":
            return f"http://127.0.0.1:{int(port)}/readyz"
    raise ValueError("neither PLACET_HEALTH_PORT nor PLACET_GATEWAY_PORT is set")


def answers(url: str, timeout_s: float = _TIMEOUT_S) -> tuple[bool, str]:
    """Whether a GET of `url` answers 2xx, and what it answered (at most 500 characters)."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80, timeout=timeout_s)
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        body = response.read(500).decode("utf-8", "replace")
        return 200 <= response.status < 300, f"{response.status} {body}"
    except (OSError, http.client.HTTPException) as error:
        return False, f"{type(error).__name__}: {error}"
    finally:
        connection.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0: ready. 1: not ready. 2: nothing to ask."""
    parser = argparse.ArgumentParser(prog="placet.observability.probe", description=__doc__.splitlines()[0])
    parser.add_argument("url", nargs="?", help="default: this container's own /readyz")
    options = parser.parse_args(arguments)
    try:
        url = options.url or own_url(os.environ)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    ready, answer = answers(url)
    print(answer, file=sys.stdout if ready else sys.stderr)
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
