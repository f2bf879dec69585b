"""The scripted engine takes time for what it has not cached, where it is told to."""

import time

import httpx

from penstock.testing.scripted_engine.engine_process import ScriptedEngine

TOKENS = 4_000


def ask(engine: ScriptedEngine, text: str) -> float:
    began = time.monotonic()
    message = {"role": "user", "content": text}
    answer = httpx.post(
        f"{engine.url}/v1/chat/completions", json={"model": engine.model, "messages": [message]}
    )
    assert answer.status_code == 200
    return time.monotonic() - began


def test_prompt_takes_the_time_of_its_uncached_tokens_only() -> None:
    text = "word" * TOKENS
    with ScriptedEngine(prefill_rate=2_000) as engine:
        first, again = ask(engine, text), ask(engine, text)
    assert first >= TOKENS / 2_000
    assert again < first / 2
