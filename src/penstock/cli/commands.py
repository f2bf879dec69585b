"""Joins all commands into one tree, and turns errors into one line and an exit code."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperGroup

from penstock.cli import (
    account,
    cache,
    config_show,
    control,
    flex,
    gateway,
    jobs,
    keeper,
    key,
    limit,
    migrate,
    models,
    route,
)
from penstock.cli.bench import command as bench
from penstock.cli.chat import command as chat
from penstock.cli.demo import command as demo
from penstock.cli.distribution import DISTRIBUTION
from penstock.cli.doctor import command as doctor
from penstock.cli.exit_codes import KNOWN, code_of, line_of, the_one_in
from penstock.cli.options import Invocation
from penstock.cli.output import error_console
from penstock.cli.up import command as up
from penstock.cli.up import logs, status, stop
from penstock.cli.usage import command as usage
from penstock.telemetry import log
from penstock.telemetry.settings import TelemetrySettings


class _Commands(TyperGroup):
    """Prints the known errors of all commands in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature
        try:
            return super().invoke(ctx)
        except (*KNOWN, ExceptionGroup) as raised:
            failure = the_one_in(raised)
            # typer handles a closed pipe (`| head`); an unknown error is a bug: show a traceback.
            if not isinstance(failure, KNOWN) or isinstance(failure, BrokenPipeError):
                raise
            error_console().print(f"[red]error:[/] {escape(line_of(failure))}", soft_wrap=True)
            raise typer.Exit(code_of(failure)) from None


app = typer.Typer(
    cls=_Commands,
    help="Serverless inference for agents, on your own GPUs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"penstock {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(help="The configuration file; penstock.toml here or in /etc/penstock if not."),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Serverless inference for agents, on your own GPUs."""
    context.obj = Invocation(config)
    # Long-running commands set up their own log; the others show only warnings.
    log.set_up(TelemetrySettings(log_level="warning", log_format="text"))


app.command(name="up")(up.up)
app.command(name="status")(status.status)
app.command(name="logs")(logs.logs)
app.command(name="stop")(stop.stop)
app.command(name="gateway")(gateway.gateway)
app.command(name="keeper")(keeper.keeper)
app.command(name="control")(control.control)
app.command(name="migrate")(migrate.migrate)
app.add_typer(account.app, name="account")
app.add_typer(key.app, name="key")
app.add_typer(limit.app, name="limit")
app.add_typer(flex.app, name="flex")
app.add_typer(jobs.app, name="jobs")
app.add_typer(models.app, name="models")
app.add_typer(usage.app, name="usage")
app.add_typer(cache.app, name="cache")
app.add_typer(route.app, name="route")
app.add_typer(config_show.app, name="config")
app.command(name="chat")(chat.chat)
app.command(name="doctor")(doctor.doctor)
app.command(name="bench")(bench.bench)
app.command(name="demo")(demo.demo)
