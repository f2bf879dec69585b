"""Fills a recipe's placeholders: returns the command line and environment that start one engine.

Pure. A placeholder is a word in braces, `{port}` or `{engine_home}`. JSON in an argument is left
unchanged, because a quote follows its braces.
"""

import re
from collections.abc import Mapping

from penstock.catalogue.close_names import closest
from penstock.catalogue.entry_error import CatalogueError
from penstock.records.model import Recipe

PLACEHOLDERS = ("port", "engine_home")

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def fill(recipe: Recipe, *, port: int, engine_home: str) -> tuple[list[str], dict[str, str]]:
    """Return argv and the recipe's own environment variables for an engine on `port`."""
    values = {"port": str(port), "engine_home": engine_home}
    argv = [
        _fill_text(text, values, key=f"recipe.command[{index}]")
        for index, text in enumerate(recipe.command)
    ]
    environment = {
        name: _fill_text(text, values, key=f"recipe.environment.{name}")
        for name, text in recipe.environment.items()
    }
    return argv, environment


def _fill_text(text: str, values: Mapping[str, str], *, key: str) -> str:
    # A single pass, so that braces inside a filled-in value are not replaced.
    return _PLACEHOLDER.sub(lambda found: _value_of(found[1], values, key=key), text)


def _value_of(name: str, values: Mapping[str, str], *, key: str) -> str:
    value = values.get(name)
    if value:
        return value
    if value is not None:
        raise CatalogueError(
            f"needs {{{name}}}, which is not set",
            advice="Install the CPU engine with deploy/cpu-engine/setup and name its folder",
            key=key,
        )
    known = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
    close = closest(name.lower(), PLACEHOLDERS)
    hint = f"Did you mean {{{close[0]}}}? " if close else ""
    raise CatalogueError(
        f"{{{name}}} is not a placeholder", advice=f"{hint}There are: {known}", key=key
    )
