"""Structured logs: one JSON object per line on standard error."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.typing import EventDict, WrappedLogger

from placet.observability.context import log_fields


def configure(service: str, level: str = "INFO") -> None:
    """Set up logging for this process. Called once, from a service's `__main__` or the command line."""
    number = logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            _add_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        # Standard error of the moment: whoever redirects it later still gets the lines.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )
    structlog.contextvars.bind_contextvars(service=service)
    logging.basicConfig(
        stream=sys.stderr, level=max(number, logging.WARNING), format="%(name)s %(levelname)s %(message)s"
    )


def _add_request(_: WrappedLogger, __: str, line: EventDict) -> EventDict:
    """Read when a line is written: binding the fields for every message cost more than the lines."""
    return {**log_fields(), **line}


def get(name: str) -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(module=name)
    return logger
