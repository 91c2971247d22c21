"""`placet policy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from placet.cli.commands.options import EngineName, EngineOption, JsonOption
from placet.cli.commands.running import quiet_logs

app = typer.Typer(help="Try the policies without anything else running.", no_args_is_help=True)

PolicyDirOption = Annotated[
    Path | None, typer.Option("--policies", metavar="DIR", help="Default: PLACET_POLICY_DIR, else policies/.")
]


@app.command("test")
def run_tests(
    policies: PolicyDirOption = None,
    policy_engine: EngineOption = EngineName.AUTO,
    only: Annotated[str, typer.Option("--only", metavar="TEXT", help="Only cases with TEXT in their name.")] = "",
) -> None:
    """Run the case tables of policies/cases through an engine; exit code 1 when any answer is not as written."""
    import asyncio

    from placet.cli import policy_runs
    from placet.cli.output import fail

    quiet_logs()
    result = asyncio.run(policy_runs.run_cases(policies, policy_engine.value, only))
    for name, difference in result.failures:
        typer.echo(f"✗ {name}: {difference}")
    summary = f"{result.total - len(result.failures)} of {result.total} cases hold ({result.engine}, {result.revision})"
    if result.failures or not result.total:
        fail(summary)
    typer.echo(f"✓ {summary}")


@app.command("explain")
def explain(
    question: Annotated[Path, typer.Argument(metavar="INPUT.json", help="A decision input; - reads standard input.")],
    rule: Annotated[str, typer.Option("--rule", help="Which rule to ask.")] = "placet.authz.decision",
    policies: PolicyDirOption = None,
    policy_engine: EngineOption = EngineName.AUTO,
    as_json: JsonOption = False,
) -> None:
    """Decide an input and say why: effect, reasons, obligations, policy revision.

    INPUT is what policy is asked (AuthZEN: subject, action, resource, context), for instance the `decision_input` of
    an audit record.
    """
    import asyncio
    import sys

    from placet.cli import policy_runs
    from placet.cli.output import print_json, print_table

    quiet_logs()
    text = sys.stdin.read() if str(question) == "-" else question.read_text(encoding="utf-8")
    answer = asyncio.run(policy_runs.explain(policies, policy_engine.value, rule, text))
    if as_json:
        print_json(answer)
    else:
        print_table(("", ""), policy_runs.lines(answer))
