"""The scripted engine keeps to its context length whatever `min_tokens` asks for."""

from pathlib import Path

import httpx
import pytest

from penstock.testing import ScriptedEngine

HUGE = 2_000_000
GROWTH_KIB_MAX = 40_000


def peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


@pytest.mark.parametrize("fields", [{"max_tokens": 5}, {}], ids=["max_tokens", "context"])
def test_min_tokens_beyond_the_limit_is_refused_and_takes_no_memory(
    fields: dict[str, int],
) -> None:
    with ScriptedEngine(model="m", max_model_len=4096) as engine:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
        url = f"{engine.url}/v1/chat/completions"
        assert httpx.post(url, json=body).status_code == 200
        before = peak_kib(engine.pid)
        answer = httpx.post(url, json={**body, "min_tokens": HUGE})
        assert peak_kib(engine.pid) - before < GROWTH_KIB_MAX
        assert answer.status_code == 400
        assert "min_tokens must be less than or equal to max_tokens=" in answer.text
        answer = httpx.post(url, json={**body, "min_tokens": 5})
        assert answer.json()["usage"]["completion_tokens"] >= 5


def test_a_script_with_too_many_tokens_is_cut_at_the_context() -> None:
    with ScriptedEngine(model="m", max_model_len=4096) as engine:
        content = f'@script {{"tokens": {HUGE}}}'
        body = {"model": "m", "messages": [{"role": "user", "content": content}]}
        before = peak_kib(engine.pid)
        answer = httpx.post(f"{engine.url}/v1/chat/completions", json=body).json()
        assert peak_kib(engine.pid) - before < GROWTH_KIB_MAX
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"]["total_tokens"] == 4096
