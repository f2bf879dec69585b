"""The scripted engine's command line."""

import argparse
import os
from collections.abc import Sequence
from typing import Literal

import msgspec


class EngineOptions(msgspec.Struct, frozen=True):
    """How one scripted engine is set up."""

    port: int
    host: str
    model: str
    slots: int
    queue_limit: int | None
    max_model_len: int
    runner: Literal["generate", "pooling"]
    kv_blocks: int
    prefill_rate: float
    interval: float
    sentence: str
    log_limit: int
    requests_file: str
    start_seconds: float
    fail_every: int
    drain_seconds: float
    follow_stdin: bool
    gpu_folder: str
    api_key: str
    visible_gpus: str
    nodes: int
    node_rank: int
    master_address: str
    master_port: int
    headless: bool


def read_options(arguments: Sequence[str] | None = None) -> EngineOptions:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.testing.scripted_engine",
        description="An engine that speaks like vLLM and misbehaves as a script says.",
    )
    parser.add_argument("--port", type=int, default=0, help="0 takes any free port")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--model", required=True, help="the served model name")
    parser.add_argument("--slots", type=int, default=256, help="requests running at once")
    parser.add_argument("--queue-limit", type=int, default=None, help="then 503")
    parser.add_argument("--max-model-len", type=int, default=1_000_000)
    parser.add_argument(
        "--runner", default="generate", choices=["generate", "pooling"], help="pooling: embeddings"
    )
    parser.add_argument("--kv-blocks", type=int, default=65_536, help="blocks of 16 tokens")
    parser.add_argument(
        "--prefill-rate", type=float, default=0.0, help="uncached tokens a second; 0: at once"
    )
    parser.add_argument(
        "--interval", type=float, default=0.0, help="seconds between tokens; a script may differ"
    )
    parser.add_argument(
        "--sentence", default="", help="what is said where no script and no schema says otherwise"
    )
    parser.add_argument("--log-limit", type=int, default=100, help="requests remembered")
    parser.add_argument("--requests-file", default="", help="one line at each begin and end")
    parser.add_argument(
        "--start-seconds", type=float, default=0.0, help="how long it takes before it listens"
    )
    parser.add_argument("--fail-every", type=int, default=0, help="answers each Nth with 500")
    parser.add_argument("--drain-seconds", type=float, default=60.0)
    parser.add_argument(
        "--follow-stdin", action="store_true", help="end at once when stdin is closed"
    )
    parser.add_argument(
        "--gpu-folder", default="", help="hold the visible GPUs there; end if another has one"
    )
    parser.add_argument("--nnodes", dest="nodes", type=int, default=1, help="hosts that it runs on")
    parser.add_argument("--node-rank", type=int, default=0, help="which of them this is")
    parser.add_argument(
        "--master-addr", dest="master_address", default="127.0.0.1", help="of the first one"
    )
    parser.add_argument("--master-port", type=int, default=0, help="where that waits for others")
    parser.add_argument("--headless", action="store_true", help="serve nobody")
    environment = os.environ  # noqa: TID251 - engines take these from their environment
    parser.add_argument("--api-key", default=environment.get("VLLM_API_KEY", ""))
    parser.set_defaults(visible_gpus=environment.get("CUDA_VISIBLE_DEVICES", ""))
    return msgspec.convert(vars(parser.parse_args(arguments)), EngineOptions)
