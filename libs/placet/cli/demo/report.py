"""What the demo shows: steps, what each one checked, what was expected and what came instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import typer


@dataclass(slots=True)
class Report:
    """`failures` holds one line per check that did not hold."""

    failures: list[str] = field(default_factory=list)
    checks: int = 0
    _step: str = ""

    def step(self, title: str) -> None:
        self._step = title
        typer.secho(f"\n{title}", bold=True)

    def say(self, text: str) -> None:
        """Something seen on the way."""
        typer.secho(f"    {text}", dim=True)

    def holds(self, what: str, good: bool, *, expected: Any = None, got: Any = None) -> bool:
        """Record a check; `expected` and `got` are shown only when it does not hold."""
        self.checks += 1
        if good:
            typer.echo(f"  {typer.style('✓', fg='green')} {what}")
            return True
        typer.echo(f"  {typer.style('✗', fg='red')} {what}")
        if expected is not None:
            typer.echo(f"      expected: {expected}")
        typer.echo(f"      got:      {_short(got)}")
        self.failures.append(f"{self._step.split(':')[0]}: {what}")
        return False

    def equal(self, what: str, got: Any, expected: Any) -> bool:
        return self.holds(what, got == expected, expected=expected, got=got)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 600 else text[:600] + " …"
