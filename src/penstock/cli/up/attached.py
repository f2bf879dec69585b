"""Asks a running engine what it serves, and finds or writes the catalogue entry for that.

A model that is not in the catalogue gets an entry made of what the engine reports.
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
from penstock.records.dialect import OPENAI, VLLM, Dialect, health_path
from penstock.records.model import Model

NOT_VLLM = "is not vLLM: it reports no load, perhaps no cached tokens, and accounts share its cache"
# vLLM names itself as the owner of the models that it lists.
_VLLM_OWNER = "vllm"
# Other servers queue what they cannot run at once.
_SLOTS_LIVE = 32
# Assumed if the engine does not report its context, because an entry needs a number.
_CONTEXT_TOKENS = 8192
_OUTPUT_TOKENS_MAX = 4096


class ServedModel(msgspec.Struct, frozen=True):
    """A model that an engine lists. `max_model_len` is vLLM's name for the context."""

    id: str
    max_model_len: int | None = None
    owned_by: str = ""


class _ServedModels(msgspec.Struct, frozen=True):
    data: tuple[ServedModel, ...] = ()


def ask_engine(caller: HttpCaller, url: str) -> tuple[ServedModel, ...]:
    """Return every model that the engine lists, in its order; refuses an engine without any."""
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


def dialect_of(caller: HttpCaller, url: str, served: tuple[ServedModel, ...]) -> Dialect:
    """Return what the engine speaks: vLLM's dialect, or OpenAI's API and nothing more."""
    if served[0].owned_by != _VLLM_OWNER:
        return OPENAI
    # A proxy before vLLM may pass on /v1 alone.
    return VLLM if caller.get(url, health_path(VLLM)).status == 200 else OPENAI


def match(catalogue: Catalogue, served: tuple[ServedModel, ...]) -> Model | None:
    """Return the catalogue's model by id or alias, or by a recipe's served name."""
    names = [each.id for each in served]
    for name in names:
        # In Penstock this name means the default model, not one of this name.
        if name != DEFAULT_NAME:
            with contextlib.suppress(NotFound):
                return catalogue.find(name)
    return next((m for m in catalogue.models if m.recipe.served_name in names), None)


def write_entry(folder: Path, served: ServedModel, dialect: Dialect) -> Path:
    """Write an entry for an engine's own model, which people may edit."""
    name = _name_of(served.id)
    path = folder / f"attached-{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:200]}.toml"
    path.write_text(_entry(name, served, dialect))
    return path


def _entry(name: str, served: ServedModel, dialect: Dialect) -> str:
    context = served.max_model_len or _CONTEXT_TOKENS
    output = max(1, min(_OUTPUT_TOKENS_MAX, context // 4))
    # Our own name: the engine's may contain anything, even a placeholder's braces.
    command = ["vllm", "serve", name, "--port", "{port}", "--enable-prompt-tokens-details"]
    slots = responses = ""
    if dialect != VLLM:
        slots = f"slots_live = {_SLOTS_LIVE}\n"
        # Not all of them have `/v1/responses`, and all have chat.
        responses = 'responses = "chat"\n'
    return (
        "# Made by `penstock up --attach` out of what the engine says. Edit it as you like: it is\n"
        "# not written again while it is here.\n"
        f"id = {toml(name)}\n"
        'family = "openai"\n'
        f"context_tokens = {context}\n"
        f"default_output_tokens = {output}\n"
        'capabilities = ["tools", "structured_output", "async_queue"]\n'
        f"{responses}"
        "\n[recipe]\n"
        f"served_name = {toml(served.id)}\n"
        f"{slots}"
        f"command = {toml(command)}\n"
    )


def _name_of(served: str) -> str:
    """Return the engine's name for a model if it is valid here, else a similar valid one."""
    if not fault_in(served) and served != DEFAULT_NAME:
        return served
    parts = [re.sub(r"[^A-Za-z0-9@._:-]", "-", part)[:100] for part in served.split("/") if part]
    return "/".join(["attached", *parts[-2:]])
