"""Joins all commands into one tree, and turns errors into one line and an exit code.

It imports only what `--version` and `--help` need; a command's modules are imported when it runs.
"""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.exceptions import TyperException
from typer.main import get_command

from penstock import DISTRIBUTION
from penstock.cli.lazy_group import LazyCommand, LazyGroup

# Name, place below this package, and a line for the list of commands.
_COMMANDS = (
    ("up", "up.command:up", "Run everything on this machine."),
    ("demo", "demo.command:demo", "Show what affinity and flex are worth, in one table."),
    ("status", "up.status:status", "Show what runs here, and 24 hours of use."),
    ("logs", "up.logs:logs", "Print the end of a process's or an engine's log."),
    ("stop", "up.stop:stop", "End the `penstock up` of this folder."),
    ("doctor", "doctor.command:doctor", "Check what an installation stands on; say what to do."),
    ("chat", "chat.command:chat", "Talk to a model in the terminal."),
    ("bench", "bench.command:bench", "Measure any OpenAI-compatible address."),
    ("models", "models:app", "List, show, check and fetch models."),
    ("deploy", "deploy:app", "Deploy models on hosts, and roll out changes."),
    ("replicas", "replicas:app", "See, drain and restart replicas."),
    ("hosts", "hosts:app", "See hosts, and keep replicas off them."),
    ("usage", "usage.command:app", "Show what was used and what it cost."),
    ("requests", "requests:requests", "List the slow, dear, failed or latest requests."),
    ("explain", "explain:explain", "Explain one request: why it was slow, dear or refused."),
    ("top", "top.command:top", "Watch replicas, workflows, sessions and requests."),
    ("jobs", "jobs:app", "List, show, cancel and watch queued work."),
    ("responses", "responses:app", "List, show and delete stored responses."),
    ("containers", "containers:app", "List and stop containers, and see their cost."),
    ("tools", "tools:app", "List the MCP servers that are offered, and their tools."),
    ("flex", "flex:app", "Pause, resume and limit flex work, and see how it does."),
    ("route", "route:app", "See how requests are routed."),
    ("account", "account:app", "Create, list, change and block accounts."),
    ("key", "key:app", "Create, list and revoke keys."),
    ("contracts", "contracts.command:app", "Check, apply and show contracts of workflows."),
    ("decisions", "decisions.command:app", "Show what contracts decided and operators did."),
    ("limit", "limit:app", "Set, list and remove limits and budgets."),
    ("config", "config_show:app", "Look at the configuration."),
    ("migrate", "migrate:migrate", "Bring the database's tables up to date."),
    ("gateway", "gateway:gateway", "Serve requests."),
    ("keeper", "keeper:keeper", "Keep the replicas of this host."),
    ("control", "control:control", "Tend the queue, and tell of events."),
    ("sandbox", "sandbox:app", "Run code that models write, in containers on this host."),
)
# Earlier names, which work for one more release and are in no list.
_FORMER = (("cache", "cache:app", "See why a prompt was cached or not."),)


class _Commands(LazyGroup):
    """Prints the known errors of all commands in one line, without a traceback."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - typer's own signature
        super().__init__(**settings)
        for name, place, line in _COMMANDS:
            self.add_command(LazyCommand(name, f"penstock.cli.{place}", line))
        for name, place, line in _FORMER:
            self.add_command(LazyCommand(name, f"penstock.cli.{place}", line, hidden=True))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - typer's own signature
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, TyperException):
            raise
        except Exception as raised:
            # Imported here: these import rooms, for their errors.
            from penstock.cli import exit_codes, output  # noqa: PLC0415 - see above

            failure = exit_codes.the_one_in(raised)
            # typer handles a closed pipe (`| head`); an unknown error is a bug: show a traceback.
            is_known = isinstance(failure, exit_codes.KNOWN)
            if not is_known or isinstance(failure, BrokenPipeError):
                raise
            output.print_error(exit_codes.line_of(failure))
            raise typer.Exit(exit_codes.code_of(failure)) from None


app = typer.Typer(
    cls=_Commands,
    help="Serverless inference for agents, on your own GPUs.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
    pretty_exceptions_enable=False,
)


def whole_tree() -> LazyGroup:
    """Return the root command with every command loaded, for documentation and tests."""
    root: Any = get_command(app)
    assert isinstance(root, LazyGroup)
    root.load_all()
    return root


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
    # Imported here: these import rooms, and `--version` and `--help` end before.
    from penstock.cli.options import Invocation  # noqa: PLC0415 - see above
    from penstock.telemetry import log  # noqa: PLC0415 - see above
    from penstock.telemetry.settings import TelemetrySettings  # noqa: PLC0415 - see above

    context.obj = Invocation(config)
    # Long-running commands set up their own log; the others show only warnings.
    log.set_up(TelemetrySettings(log_level="warning", log_format="text"))
