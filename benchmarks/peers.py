"""The peers that the gateway is measured beside, as they come, each installed on first use.

Their folders are in the cache, outside the checkout: one venv for each, since no two agree on their
dependencies. nginx is Debian's.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from candidates import (
    CANDIDATE_CORE,
    Candidate,
    free_ports_in_a_row,
    start_anywhere,
    start_pinned,
    wait_ready,
)
from needs import find_program, require

ROUTER_VERSION: Final = "0.1.16"
SGLANG_VERSION: Final = "0.3.2"
LITELLM_VERSION: Final = "1.106.2"
_INSTALL_SECONDS: Final = 1800


def installed(cache: Path, name: str, packages: list[str], program: str = "") -> Path:
    """A program out of a venv in the cache that holds these packages, made on first use."""
    venv = cache / name
    found = venv / "bin" / (program or name)
    mark = venv / ".ready"
    if not mark.exists():
        print(f"installing {', '.join(packages)} into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [str(venv / "bin" / "pip"), "install", "-q", *packages]
        subprocess.run(install, check=True, timeout=_INSTALL_SECONDS)
        mark.touch()
    return found


def start_vllm_router(
    ports: list[int], cache: Path, policy: str = "consistent_hash", workers: int = 0
) -> Candidate:
    """It logs each request, as the gateway does. `workers`: so many threads, on any core."""
    program = installed(cache, "vllm-router", [f"vllm-router=={ROUTER_VERSION}"])
    port = free_ports_in_a_row(2)
    command = [str(program), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--prometheus-host", "127.0.0.1", "--prometheus-port", str(port + 1)]
    command += ["--policy", policy, "--worker-urls", *_urls(ports)]
    return _started(f"vllm-router {ROUTER_VERSION}, {policy}", port, command, workers)


def start_sglang_router(ports: list[int], cache: Path) -> Candidate:
    python = installed(cache, "sglang-router", [f"sglang-router=={SGLANG_VERSION}"], "python")
    port = free_ports_in_a_row(2)
    command = [str(python), "-m", "sglang_router.launch_router", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--prometheus-port", str(port + 1)]
    command += ["--policy", "cache_aware", "--worker-urls", *_urls(ports)]
    return _started(f"sglang-router {SGLANG_VERSION}, cache_aware", port, command)


def start_litellm(ports: list[int], cache: Path) -> Candidate:
    """One worker without a database; opentelemetry beside it, or each request retries an import."""
    packages = [f"litellm[proxy]=={LITELLM_VERSION}", "opentelemetry-api", "opentelemetry-sdk"]
    packages.append("opentelemetry-exporter-otlp")
    program = installed(cache, "litellm", packages)
    port = free_ports_in_a_row(1)
    folder = Path(tempfile.mkdtemp(prefix="litellm-bench-"))
    models = "".join(
        f"  - model_name: m\n    litellm_params: {{model: openai/m, api_base: '{url}/v1', "
        "api_key: x, input_cost_per_token: 0.0000006, output_cost_per_token: 0.000003}\n"
        for url in _urls(ports)
    )
    key = "general_settings: {master_key: sk-benchmark}\n"
    (folder / "config.yaml").write_text(f"model_list:\n{models}{key}")
    command = [str(program), "--config", str(folder / "config.yaml"), "--host", "127.0.0.1"]
    command += ["--port", str(port), "--num_workers", "1", "--telemetry", "False"]
    candidate = _started(f"LiteLLM {LITELLM_VERSION}", port, command)
    candidate.after_stop = lambda: shutil.rmtree(folder, ignore_errors=True)
    return candidate


def start_nginx(ports: list[int], workers: int = 0) -> Candidate:
    """Round robin, kept connections, no buffering: it never looks at a body.

    One worker on the candidates' core, or so many on any core.
    """
    require({"nginx"})
    program = find_program("nginx") or ""
    port = free_ports_in_a_row(1)
    folder = Path(tempfile.mkdtemp(prefix="nginx-bench-"))
    servers = "".join(f"server 127.0.0.1:{upstream};" for upstream in ports)
    folders = "".join(
        f"{kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes {workers or 1}; pid {folder}/pid; error_log /dev/null;\n"
        "events { worker_connections 4096; }\n"
        f"http {{ access_log {folder}/access.log; {folders} client_max_body_size 64m;\n"
        "client_body_buffer_size 2m; keepalive_requests 100000000;\n"
        f"upstream engines {{ {servers} keepalive 256; keepalive_requests 100000000; }}\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://engines;\n"
        'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }\n'
    )
    command = [program, "-p", str(folder), "-c", str(folder / "nginx.conf")]
    candidate = _started("nginx", port, command, workers)
    candidate.after_stop = lambda: shutil.rmtree(folder, ignore_errors=True)
    return candidate


def _started(name: str, port: int, command: list[str], workers: int = 0) -> Candidate:
    if workers:
        threads = {"TOKIO_WORKER_THREADS": str(workers)}
        process = start_anywhere(command, {**os.environ, **threads})  # noqa: TID251 - a child's
    else:
        process = start_pinned(command, CANDIDATE_CORE)
    candidate = Candidate(name=name, port=port, process=process, workers=workers or 1)
    wait_ready(candidate)
    return candidate


def _urls(ports: list[int]) -> list[str]:
    return [f"http://127.0.0.1:{port}" for port in ports]
