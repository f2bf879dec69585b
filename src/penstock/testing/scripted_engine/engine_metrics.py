"""Writes the scripted engine's `/metrics`: the few metrics of vLLM that Penstock reads."""

from penstock.testing.scripted_engine.inference import Inference
from penstock.testing.scripted_engine.prefix_blocks import TOKENS_PER_BLOCK


def metrics_page(inference: Inference, model: str) -> bytes:
    """Return Prometheus text with vLLM's names and labels."""
    label = f'engine="0",model_name="{model}"'
    blocks = inference.blocks
    page = [
        _metric("num_requests_running", "gauge", label, inference.slots.running),
        _metric("num_requests_waiting", "gauge", label, inference.slots.waiting),
        _metric("kv_cache_usage_perc", "gauge", label, inference.kv_usage),
        _metric("prefix_cache_queries_total", "counter", label, blocks.queried_tokens),
        _metric("prefix_cache_hits_total", "counter", label, blocks.hit_tokens),
        _metric("num_preemptions_total", "counter", label, 0),
    ]
    size = blocks.capacity * TOKENS_PER_BLOCK
    config = (
        f'block_size="{TOKENS_PER_BLOCK}",cache_dtype="auto",enable_prefix_caching="True",'
        f'engine="0",kv_cache_size_tokens="{size}",num_gpu_blocks="{blocks.capacity}"'
    )
    page.append(_metric("cache_config_info", "gauge", config, 1))
    return "".join(page).encode()


def _metric(name: str, kind: str, labels: str, value: float) -> str:
    return (
        f"# HELP vllm:{name} {name.replace('_', ' ')}\n# TYPE vllm:{name} {kind}\n"
        f"vllm:{name}{{{labels}}} {float(value)}\n"
    )
