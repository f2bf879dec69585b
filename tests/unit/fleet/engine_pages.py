"""Metrics pages as vLLM 0.32 wrote them, on a CPU; only the figures are filled in."""

_PAGE = """\
# HELP python_info Python platform information
# TYPE python_info gauge
python_info{{implementation="CPython",major="3",minor="11",patchlevel="7",version="3.11.7"}} 1.0
# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 14.31
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="smol"}} {running}
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="smol"}} {waiting}
# HELP vllm:num_requests_waiting_by_reason Number of waiting requests by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{{engine="0",model_name="smol",reason="capacity"}} {waiting}
vllm:num_requests_waiting_by_reason{{engine="0",model_name="smol",reason="deferred"}} 0.0
# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="smol"}} {kv_use}
# HELP vllm:request_prefill_time_seconds Histogram of time spent in PREFILL phase for request.
# TYPE vllm:request_prefill_time_seconds histogram
vllm:request_prefill_time_seconds_bucket{{engine="0",le="0.3",model_name="smol"}} 0.0
vllm:request_prefill_time_seconds_bucket{{engine="0",le="+Inf",model_name="smol"}} {prefills}
vllm:request_prefill_time_seconds_count{{engine="0",model_name="smol"}} {prefills}
vllm:request_prefill_time_seconds_sum{{engine="0",model_name="smol"}} {seconds}
# HELP vllm:request_prefill_kv_computed_tokens Histogram of new KV tokens computed during prefill.
# TYPE vllm:request_prefill_kv_computed_tokens histogram
vllm:request_prefill_kv_computed_tokens_bucket{{engine="0",le="+Inf",model_name="smol"}} {prefills}
vllm:request_prefill_kv_computed_tokens_count{{engine="0",model_name="smol"}} {prefills}
vllm:request_prefill_kv_computed_tokens_sum{{engine="0",model_name="smol"}} {tokens}
# HELP vllm:request_prefill_time_seconds_created Histogram of time spent in PREFILL phase.
# TYPE vllm:request_prefill_time_seconds_created gauge
vllm:request_prefill_time_seconds_created{{engine="0",model_name="smol"}} 1.7947364317804525e+09
# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{{_block_size_resolved="True",block_size="128",cache_dtype="auto",\
effective_attention_block_size="128",enable_prefix_caching="True",engine="0",\
gpu_memory_utilization="0.92",kv_cache_dtype_skip_layers="[]",kv_cache_max_concurrency="5.6875",\
kv_cache_memory_bytes="1073741824",kv_cache_size_tokens="46592",mamba_block_size="None",\
num_cpu_blocks="None",num_gpu_blocks="364",num_gpu_blocks_override="None",sliding_window="None",\
user_specified_block_size="False"}} 1.0
"""


def engine_page(**figures: float | str) -> bytes:
    """`running`, `waiting`, `kv_use`; `prefills`, with their uncached `tokens` and `seconds`."""
    names = ("running", "waiting", "kv_use", "prefills", "tokens", "seconds")
    assert figures.keys() <= set(names)
    return _PAGE.format(**{**dict.fromkeys(names, 0.0), **figures}).encode()


# After three prompts of 1,530 tokens one by one, then six more at once, then three short ones.
ALONE = engine_page(prefills=3.0, tokens=4590.0, seconds=4.476076244998694)
AT_ONCE = engine_page(prefills=9.0, tokens=13770.0, seconds=23.3331164049996)
SHORT = engine_page(prefills=12.0, tokens=13875.0, seconds=23.702247719000297)
