"""Describes the model of `penstock up --imitate`: a whole cell without weights or a GPU.

Its engine speaks like vLLM, caches prefixes and takes time for each token, but every answer is the
same sentence. It is no part of the built-in catalogue, so nobody runs it by mistake.
"""

import sys
from pathlib import Path
from typing import Final

from penstock.config import toml

IMITATED_MODEL: Final = "@local/penstock/imitated"
IMITATED_NOTE: Final = (
    "The engines are imitated: every answer is the same sentence. Tokens, caching, prices, limits"
    " and jobs are counted as with real engines."
)
_SENTENCE: Final = (
    "Hello! This answer is imitated: no model runs here. Penstock routed, metered and priced it"
    " like any other."
)
# Two, so that routing has a choice.
REPLICAS: Final = 2
# Named, not imported: `testing` is a layer above `cli`.
_MODULE: Final = "penstock.testing.scripted_engine"
_CONTEXT_TOKENS: Final = 131_072
_SLOTS: Final = 16
# About what one GPU does with a model of medium size, so that a first token waits for its prompt.
_PREFILL_TOKENS_PER_SECOND: Final = 8_000
_SECONDS_PER_TOKEN: Final = 0.02
# 16 tokens each.
_KV_BLOCKS: Final = 16_384


def write_imitated(folder: Path) -> None:
    """Write the model's entry into a catalogue folder; anew at each start, to name this Python."""
    (folder / "imitated.toml").write_text(_entry())


def _entry() -> str:
    command = [
        *(sys.executable, "-m", _MODULE, "--host", "{address}", "--port", "{port}"),
        *("--model", IMITATED_MODEL),
        *("--max-model-len", str(_CONTEXT_TOKENS), "--slots", str(_SLOTS)),
        *("--kv-blocks", str(_KV_BLOCKS), "--prefill-rate", str(_PREFILL_TOKENS_PER_SECOND)),
        *("--interval", str(_SECONDS_PER_TOKEN), "--sentence", _SENTENCE, "--drain-seconds", "1"),
    ]
    return f"""# Made by `penstock up --imitate`, anew at each start.
id = "{IMITATED_MODEL}"
aliases = ["imitated"]
description = "An imitated engine: one sentence at a model's pace, for trying Penstock out."
family = "openai"
context_tokens = {_CONTEXT_TOKENS}
default_output_tokens = 256
capabilities = ["tools", "structured_output", "async_queue"]

# As of Kimi K2.5, so that money shows.
[prices]
input_usd_per_mtok = 0.60
cached_input_usd_per_mtok = 0.10
output_usd_per_mtok = 3.00

[recipe]
slots_live = {_SLOTS}
start_seconds_max = 60
served_name = "{IMITATED_MODEL}"
command = {toml(command)}
environment = {{ VLLM_API_KEY = "{{engine_key}}" }}
"""
