"""An engine that already runs: what it serves, and the catalogue entry for that.

An engine whose model is not in the catalogue gets an entry of its own, made of what it says.
"""

import contextlib
import re
from pathlib import Path

import msgspec

from penstock.catalogue import Catalogue
from penstock.catalogue.names import DEFAULT_NAME, fault_in
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.http_call import HttpCaller
from penstock.config import toml
from penstock.errors import NotFound
from penstock.records.model import Model

# What vLLM would be started with if it does not say; entries must have some number.
_CONTEXT_TOKENS = 8192
_OUTPUT_TOKENS_MAX = 4096


class ServedModel(msgspec.Struct, frozen=True):
    """What an engine says of one model. `max_model_len` is vLLM's word for the context."""

    id: str
    max_model_len: int | None = None


class _ServedModels(msgspec.Struct, frozen=True):
    data: tuple[ServedModel, ...] = ()


def ask_engine(caller: HttpCaller, url: str) -> tuple[ServedModel, ...]:
    """Every name that the engine answers to, its own first; refused when there is none."""
    answer = caller.get(url, "/v1/models")
    if answer.status == 401:
        raise CommandFailed(
            f"{url} wants a key: set engine.api_keys, for example"
            f' PENSTOCK_ENGINE_API_KEYS=\'{{"{url}" = "KEY"}}\'.'
        )
    try:
        served = msgspec.json.decode(answer.body, type=_ServedModels).data
    except msgspec.DecodeError:
        served = ()
    if answer.status != 200 or not served:
        raise CommandFailed(
            f"{url}/v1/models lists no model (status {answer.status}). Is that an engine?"
        )
    return served


def match(catalogue: Catalogue, served: tuple[ServedModel, ...]) -> Model | None:
    """The catalogue's model for what is served: by id or alias, or by a recipe's served name."""
    names = [each.id for each in served]
    for name in names:
        # To us this word means something else than to the engine.
        if name != DEFAULT_NAME:
            with contextlib.suppress(NotFound):
                return catalogue.find(name)
    return next((m for m in catalogue.models if m.recipe.served_name in names), None)


def write_entry(folder: Path, served: ServedModel) -> Path:
    """An entry for an engine's own model, for people to edit."""
    name = _name_of(served.id)
    path = folder / f"attached-{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:200]}.toml"
    path.write_text(_entry(name, served))
    return path


def _entry(name: str, served: ServedModel) -> str:
    context = served.max_model_len or _CONTEXT_TOKENS
    output = max(1, min(_OUTPUT_TOKENS_MAX, context // 4))
    # The name that we gave it: the engine's own may hold anything, a placeholder's braces too.
    command = ["vllm", "serve", name, "--port", "{port}", "--enable-prompt-tokens-details"]
    return (
        "# Made by `penstock up --attach` out of what the engine says. Edit it as you like: it is\n"
        "# not written again while it is here.\n"
        f"id = {toml(name)}\n"
        'family = "openai"\n'
        f"context_tokens = {context}\n"
        f"default_output_tokens = {output}\n"
        'capabilities = ["tools", "structured_output", "async_queue"]\n'
        "\n[recipe]\n"
        f"served_name = {toml(served.id)}\n"
        f"command = {toml(command)}\n"
    )


def _name_of(served: str) -> str:
    """The engine's own name where a model may be called so; else as near as may be."""
    if not fault_in(served) and served != DEFAULT_NAME:
        return served
    parts = [re.sub(r"[^A-Za-z0-9@._:-]", "-", part)[:100] for part in served.split("/") if part]
    return "/".join(["attached", *parts[-2:]])
