"""Describes a model of Hugging Face that the catalogue lacks: a plain `vllm serve` of it."""

import re
import shutil
from pathlib import Path
from typing import Final

from penstock.config import toml

# ORGANISATION/NAME, as Hugging Face allows them.
_HUGGING_FACE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9._-]{1,96}")
# Nobody knows it before the model is loaded. The engine refuses what is too long for it.
_CONTEXT_TOKENS: Final = 131_072
_OUTPUT_TOKENS: Final = 1024
_PROGRAM: Final = "vllm"
# What Penstock's promises depend on; the context is the longest that fits into memory.
_OPTIONS: Final = (
    "--max-model-len=auto",
    "--enable-prompt-tokens-details",
    "--enable-prefix-caching",
    *("--scheduling-policy", "priority"),
    *("--shutdown-timeout", "60"),
)
_ENVIRONMENT: Final = {
    "VLLM_API_KEY": "{engine_key}",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
_CPU_OPTIONS: Final = (*("--config", "{engine_home}/options.yaml"), "--enforce-eager")
_CPU_ENVIRONMENT: Final = {
    "VLLM_TARGET_DEVICE": "cpu",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "LD_PRELOAD": "{engine_home}/venv/lib/libiomp5.so",
}


def is_hugging_face_id(name: str) -> bool:
    """Return whether a name looks like an id of Hugging Face."""
    return _HUGGING_FACE_ID.fullmatch(name) is not None


def find_program(engine_home: str) -> str | None:
    """Return the vLLM to run: the one on the path, or that of the engine for CPUs; None if none."""
    if shutil.which(_PROGRAM) is not None:
        return _PROGRAM
    return f"{{engine_home}}/venv/bin/{_PROGRAM}" if engine_home else None


def write_any_model(folder: Path, name: str, program: str, gpus: int) -> Path:
    """Write an entry for the model, which people may edit."""
    path = folder / f"huggingface-{name.replace('/', '-')}.toml"
    path.write_text(_entry(name, program, gpus))
    return path


def _entry(name: str, program: str, gpus: int) -> str:
    is_cpu = program != _PROGRAM
    command = [
        *(program, "serve", name, "--host", "{address}", "--port", "{port}"),
        *(_CPU_OPTIONS if is_cpu else ()),
        *_OPTIONS,
    ]
    environment = {**(_CPU_ENVIRONMENT if is_cpu else {}), **_ENVIRONMENT}
    lines = "".join(f"{key} = {toml(value)}\n" for key, value in environment.items())
    return (
        "# Made by `penstock up --model`. Edit it as you like: it is not written again while it\n"
        "# is here. Tools need --enable-auto-tool-choice and the model's --tool-call-parser in\n"
        '# the command, and "tools" in capabilities; a price needs [prices].\n'
        f"id = {toml(name)}\n"
        'family = "openai"\n'
        f"context_tokens = {_CONTEXT_TOKENS}\n"
        f"default_output_tokens = {_OUTPUT_TOKENS}\n"
        'capabilities = ["structured_output", "async_queue"]\n'
        "\n[recipe]\n"
        f"gpus = {0 if is_cpu else gpus}\n"
        f"served_name = {toml(name)}\n"
        f"command = {toml(command)}\n"
        f"\n[recipe.environment]\n{lines}"
    )
