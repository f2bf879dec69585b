"""Fills a recipe's placeholders: returns the command line and environment that start one engine.

Pure. A placeholder is a word in braces, such as `{port}`. JSON in an argument is left unchanged,
because a quote follows its braces.
"""

import re
from collections.abc import Mapping

import msgspec

from penstock.catalogue.close_names import closest
from penstock.catalogue.entry_error import CatalogueError
from penstock.records.model import Recipe
from penstock.records.replica import ReplicaPart

PLACEHOLDERS = (
    "port",
    "address",
    "gpus",
    "gpu_count",
    "engine_home",
    "engine_key",
    "weights",
    "nodes",
    "node_rank",
    "master_address",
    "master_port",
)
_SEVERAL_HOSTS = "Say on how many hosts one replica runs: hosts = 2"
# What to do about a placeholder without a value.
_ADVICE = {
    "engine_home": "Install the CPU engine with deploy/cpu-engine/setup and name its folder",
    "weights": "Say where they come from, under [recipe.weights]",
    "gpus": "Say how many GPUs one replica needs: gpus = 1",
    "master_address": _SEVERAL_HOSTS,
    "master_port": _SEVERAL_HOSTS,
}
# In a cell whose engines have no keys; vLLM takes an empty key for none.
_MAY_BE_EMPTY = frozenset({"engine_key"})

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class LaunchValues(msgspec.Struct, frozen=True):
    """What fills the placeholders for one engine."""

    port: int
    # Where it listens.
    address: str = "127.0.0.1"
    engine_home: str = ""
    # The ids of its GPUs.
    gpus: tuple[str, ...] = ()
    # The secret that its callers must send; "" = none.
    engine_key: str = ""
    part: ReplicaPart = ReplicaPart()
    # The folder with the recipe's fetched weights; "" where it names none.
    weights: str = ""


# Fills a recipe of any kind, to check it.
SAMPLE_VALUES = LaunchValues(
    1,
    engine_home="/",
    gpus=("0",),
    engine_key="key",
    part=ReplicaPart(2, 1, master_address="127.0.0.1", master_port=1),
)


def fill(recipe: Recipe, launch: LaunchValues) -> tuple[list[str], dict[str, str]]:
    """Return argv and the recipe's own environment variables for one engine."""
    part = launch.part
    values = {
        "port": str(launch.port),
        "address": launch.address,
        "gpus": ",".join(launch.gpus),
        "gpu_count": str(len(launch.gpus)),
        "engine_home": launch.engine_home,
        "engine_key": launch.engine_key,
        "nodes": str(part.nodes),
        "node_rank": str(part.rank),
        "master_address": part.master_address,
        "master_port": str(part.master_port or ""),
        "weights": launch.weights,
    }
    argv = [
        _fill_text(text, values, key=f"recipe.command[{index}]")
        for index, text in enumerate(recipe.command)
    ]
    if part.rank and recipe.part_arguments:
        argv += [
            _fill_text(text, values, key=f"recipe.part_arguments[{index}]")
            for index, text in enumerate(recipe.part_arguments)
        ]
    environment = {
        name: _fill_text(text, values, key=f"recipe.environment.{name}")
        for name, text in recipe.environment.items()
    }
    return argv, environment


def takes_key(recipe: Recipe) -> bool:
    """Return whether the recipe gives the engine a key, so that callers must send it."""
    return _uses(recipe, "{engine_key}")


def takes_weights(recipe: Recipe) -> bool:
    """Return whether the engine reads the fetched weights, so that it cannot start before."""
    return bool(recipe.weights) and _uses(recipe, "{weights}")


def lacks_for_hosts(recipe: Recipe) -> list[str]:
    """Return the placeholders without which its parts on several hosts do not find each other."""
    needed = ("{node_rank}", "{master_address}", "{master_port}")
    return [each for each in needed if not _uses(recipe, each)] if recipe.hosts > 1 else []


def _uses(recipe: Recipe, placeholder: str) -> bool:
    texts = (*recipe.command, *recipe.environment.values(), *(recipe.part_arguments or ()))
    return any(placeholder in text for text in texts)


def _fill_text(text: str, values: Mapping[str, str], *, key: str) -> str:
    # A single pass, so that braces inside a filled-in value are not replaced.
    return _PLACEHOLDER.sub(lambda found: _value_of(found[1], values, key=key), text)


def _value_of(name: str, values: Mapping[str, str], *, key: str) -> str:
    value = values.get(name)
    if value or (value is not None and name in _MAY_BE_EMPTY):
        return value
    if value is not None:
        raise CatalogueError(
            f"needs {{{name}}}, which is not set",
            advice=_ADVICE.get(name, "Set it"),
            key=key,
        )
    known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
    close = closest(name.lower(), PLACEHOLDERS)
    hint = f"Did you mean {{{close[0]}}}? " if close else ""
    raise CatalogueError(
        f"{{{name}}} is not a placeholder", advice=f"{hint}There are: {known}", key=key
    )
