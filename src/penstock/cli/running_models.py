"""Finds which models have replicas now, from the roster in Postgres."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from rich.text import Text

from penstock.cli.exit_codes import CommandFailed, line_of
from penstock.cli.output import error_console
from penstock.cli.postgres import opened
from penstock.cli.roster import read_replicas
from penstock.cli.up.state import UpState
from penstock.config import Config
from penstock.errors import StoreUnavailable
from penstock.records.model import ModelId
from penstock.records.replica import Replica

# How many replicas of a model are in each state.
States = Mapping[str, int]


def running_models(config: Config, state: Path) -> Mapping[ModelId, States] | None:
    """Return the states of each model's replicas; None where there is no cell to ask."""
    if not config.store.dsn and not UpState(state).is_held:
        return None

    async def run() -> tuple[Replica, ...]:
        async with opened(config, state) as store:
            return await read_replicas(store, config)

    try:
        replicas = asyncio.run(run())
    except (StoreUnavailable, CommandFailed) as failure:
        # The catalogue is worth showing without it.
        note = f"which models run is unknown: {line_of(failure)}"
        error_console().print(Text(note, style="dim"), soft_wrap=True)
        return None
    found: dict[ModelId, Counter[str]] = {}
    for replica in replicas:
        found.setdefault(replica.model, Counter())[replica.state.value] += 1
    return found
