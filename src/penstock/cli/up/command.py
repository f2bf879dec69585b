"""The command `penstock up`: its options, which `Machine` carries out."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.options import DEFAULT_STATE, JsonOption, invocation
from penstock.cli.up.hidden_dsn import hide_dsn
from penstock.cli.up.machine import Machine
from penstock.cli.up.order import Order
from penstock.cli.up.sandbox_child import SandboxKind

_ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        help="A model to launch, by id or alias, or any id of Hugging Face; may be given several"
        " times."
    ),
]
_ImitateOption = Annotated[
    bool,
    typer.Option(
        help="Run two imitated engines: nothing has to be installed, answers are made up."
    ),
]
_KeepOption = Annotated[
    bool,
    typer.Option(
        help="Leave engines loaded at the end, for an hour: the next start takes seconds."
    ),
]

_SandboxOption = Annotated[
    SandboxKind | None,
    typer.Option(
        help="Let models run code: in containers (needs root, bubblewrap and an image), or dev:"
        " without isolation."
    ),
]


def up(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    model: _ModelOption = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL", help="An engine that already runs; may be given several times."
        ),
    ] = None,
    imitate: _ImitateOption = False,
    keep_engines: _KeepOption = False,
    sandbox: _SandboxOption = None,
    state: Annotated[
        Path, typer.Option(help="The folder where everything is kept between runs.")
    ] = DEFAULT_STATE,
    port: Annotated[
        int | None,
        typer.Option(
            help="The gateway's port; 0 = any free one; ingress.port (8787) if not given."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="The port of /metrics; 0 = none; ingress.metrics_port (8788) if not given."
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Gateway workers; ingress.workers (1) if not given.")
    ] = None,
    dsn: Annotated[
        str | None,
        typer.Option(
            help="Use this Postgres instead of an embedded one. Other users of this machine can"
            " read a command line: set PENSTOCK_STORE_DSN, or store.dsn in a file, instead."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run everything on this machine: Postgres, keeper, gateway, control, an account and a key.

    Prints a curl line that works as soon as the model is ready. Ctrl-C stops everything in order;
    a second one does not wait for streams.
    """
    if dsn is not None:
        hide_dsn(dsn)
    order = Order(
        file=invocation(context).file,
        state=state,
        models=tuple(model or ()),
        attach=tuple(attach or ()),
        is_imitated=imitate,
        keeps_engines=keep_engines,
        sandbox=sandbox,
        port=port,
        metrics_port=metrics_port,
        workers=workers,
        dsn=dsn,
        is_json=json,
    )
    asyncio.run(Machine(order).run())
