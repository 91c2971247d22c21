"""The `placet` command: one small module per subcommand, each importing what it needs only when it runs."""

from __future__ import annotations

import typer

from placet.cli.commands import (
    audit,
    demo,
    docs,
    doctor,
    generate,
    keys,
    policy,
    proposals,
    provision,
    token,
    tools,
    up,
)

app = typer.Typer(
    name="placet",
    help="Placet: the model proposes; policy, people and the program decide and execute.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,  # locals may hold tokens and passwords
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command("up")(up.up)
app.command("demo")(demo.demo)
app.add_typer(proposals.app, name="proposals")
app.add_typer(audit.app, name="audit")
app.add_typer(docs.app, name="docs")
app.add_typer(policy.app, name="policy")
app.add_typer(tools.app, name="tools")
app.command("token")(token.token)
app.command("doctor")(doctor.doctor)
app.command("keys")(keys.keys)
app.command("provision")(provision.provision)
app.command("generate")(generate.generate)

if __name__ == "__main__":
    app()
