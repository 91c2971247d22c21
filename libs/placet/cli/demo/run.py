"""The demo from the first step to the verdict."""

from __future__ import annotations

import shutil
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer
from pydantic import ValidationError

from placet.cli.demo import answers, hidden, publish, record, refund
from placet.cli.demo.own_house import NotReadyError, own_house
from placet.cli.demo.refund import NotShowableError
from placet.cli.demo.report import Report
from placet.cli.demo.world import opened, read_tokens
from placet.client import ApiError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """Which gateway. Without a URL the demo starts its own."""

    url: str | None = None
    tokens_file: Path | None = None
    engine: str = "auto"


async def run_demo(target: Target) -> int:
    """0: every step showed what it should. 1: something did not. 2: the demo could not be run at all."""
    report = Report()
    started = time.monotonic()
    try:
        if target.url is None:
            return await _on_own_house(target, report, started)
        if target.tokens_file is None:
            typer.echo("--url needs --tokens-file: whose tokens shall be used?", err=True)
            return 2
        tokens = read_tokens(target.tokens_file)
        report.step(f"Step 1: {target.url} is ready")
        return await _run(target.url, tokens, report, started, logs=None)
    except (NotReadyError, OSError, ValueError) as error:
        typer.echo(f"placet demo: {error}", err=True)
        return 2


async def _on_own_house(target: Target, report: Report, started: float) -> int:
    report.step("Step 1: a machine becomes ready (bus, database, policies, demo world, five services)")
    async with own_house(target.engine) as house:
        report.say(f"policy engine: {house.ready.policy_engine}; ready after {time.monotonic() - started:.1f} s")
        code = await _run(house.ready.gateway, house.tokens, report, started, logs=house.logs)
    if code == 0:
        shutil.rmtree(house.logs.parent, ignore_errors=True)
    return code


async def _run(url: str, tokens: dict[str, str], report: Report, started: float, *, logs: Path | None) -> int:
    async with opened(url, tokens) as world:
        checks = await world["alice"].readiness()
        report.holds("the gateway is ready", bool(checks) and all(checks.values()), expected="all checks", got=checks)
        await _shown(report, answers.show(world, report))
        await _shown(report, hidden.show(world, report))
        refunded = await _shown(report, refund.show(world, report))
        await _shown(report, publish.show(world, report))
        if refunded is not None:
            await _shown(report, record.show(world, refunded, report))
    return _verdict(report, time.monotonic() - started, logs)


async def _shown(report: Report, step: Coroutine[object, object, T]) -> T | None:
    """The step's result, or None when it broke off: that is a check that did not hold, and the next step follows."""
    try:
        return await step
    except (ApiError, NotShowableError, TimeoutError, ValidationError) as error:
        report.holds("the step can be shown to its end", False, got=f"{type(error).__name__}: {error}")
        return None


def _verdict(report: Report, took_s: float, logs: Path | None) -> int:
    if not report.failures:
        typer.secho(f"\nAll {report.checks} checks hold ({took_s:.0f} s).", fg="green", bold=True)
        return 0
    typer.secho(f"\n{len(report.failures)} of {report.checks} checks do not hold:", fg="red", bold=True)
    for failure in report.failures:
        typer.echo(f"  ✗ {failure}")
    if logs is not None:
        typer.echo(f"The logs are in {logs}")
    return 1
