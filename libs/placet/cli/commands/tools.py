"""`placet tools`."""

from __future__ import annotations

import typer

from placet.cli.commands.options import JsonOption
from placet.cli.commands.running import quiet_logs

app = typer.Typer(help="The tools that are installed.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The tools that are installed."""


@app.command("list")
def list_tools(as_json: JsonOption = False) -> None:
    """List every tool that an installed pack declares (entry points of the group `placet.tools`)."""
    from placet.cli.output import print_json, print_table
    from placet.toolkit.registry import ToolRegistry, discover

    quiet_logs()
    registry = ToolRegistry(discover())
    tools = sorted(registry, key=lambda tool: tool.name)
    if as_json:
        for tool in tools:
            print_json({"pack": registry.pack_of(tool.name), **tool.descriptor().model_dump(mode="json")})
        return
    print_table(
        ("tool", "pack", "sensitivity", "effect", "risk", "version", "undo"),
        (
            (
                tool.name,
                registry.pack_of(tool.name),
                tool.sensitivity.value,
                tool.effect.value,
                tool.risk.value,
                tool.version,
                tool.undo_tool or "",
            )
            for tool in tools
        ),
    )
