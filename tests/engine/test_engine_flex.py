"""Jobs on the real engine: the same answers as live ones, at the flex tier, counted once."""

import time

import httpx
from openai import OpenAI
from tests.engine.real_cell import TEXT_MODEL, Cell

BODY = {
    "messages": [{"role": "user", "content": "Count from one to five."}],
    "max_tokens": 24,
    "temperature": 0,
    "seed": 7,
}
PATIENCE_SECONDS = 120.0


def polled(client: httpx.Client, url: str, request_id: str) -> dict[str, object]:
    """The final answer to a queued request: the one without a status."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        answer = client.post(url, json={"request_id": request_id})
        assert answer.status_code == 200, answer.text
        result: dict[str, object] = answer.json()["result"]
        if "status" not in result:
            return result
        time.sleep(0.3)
    raise AssertionError("the job did not end")


def test_flex_tier_answers_as_the_live_one_does(cell: Cell) -> None:
    client = OpenAI(base_url=cell.openai_url, api_key=cell.key, max_retries=0, timeout=300)
    live = client.chat.completions.create(model=TEXT_MODEL, **BODY)  # type: ignore[call-overload]
    flex = client.chat.completions.create(  # type: ignore[call-overload]
        model=TEXT_MODEL, service_tier="flex", **BODY
    )
    assert flex.service_tier == "flex"
    assert flex.choices[0].message.content == live.choices[0].message.content
    assert flex.usage.prompt_tokens == live.usage.prompt_tokens
    assert flex.usage.completion_tokens == live.usage.completion_tokens


def test_flex_stream_brings_the_whole_answer(cell: Cell) -> None:
    client = OpenAI(base_url=cell.openai_url, api_key=cell.key, max_retries=0, timeout=300)
    live = client.chat.completions.create(model=TEXT_MODEL, **BODY)  # type: ignore[call-overload]
    stream = client.chat.completions.create(  # type: ignore[call-overload]
        model=TEXT_MODEL, service_tier="flex", stream=True, **BODY
    )
    text = "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert text == live.choices[0].message.content


def test_queued_requests_are_answered_and_have_one_row_each(cell: Cell) -> None:
    url = f"{cell.run_url}/{TEXT_MODEL}?queueRequest=true"
    inputs = [BODY | {"external_reference": name} for name in ("a", "b", "c")]
    with cell.client() as client:
        queued = client.post(url, json={"requests": inputs}).json()["result"]
        assert queued["status"] == "queued"
        result = polled(client, url, queued["request_id"])
        responses = result["responses"]
        assert isinstance(responses, list)
        assert {each["external_reference"] for each in responses} == {"a", "b", "c"}
        assert all(each["success"] for each in responses)
        jobs = client.get(f"{cell.openai_url}/jobs", params={"batch": queued["request_id"]}).json()[
            "data"
        ]
        assert len(jobs) == 3
        for job in jobs:
            seen = client.get(f"{cell.openai_url}/usage/requests/{job['id']}").json()
            attempts = seen["attempts"]
            assert [attempt["outcome"] for attempt in attempts] == ["ok"]
            assert attempts[0]["prompt_tokens"] == job["usage"]["prompt_tokens"]
            assert attempts[0]["output_tokens"] == job["usage"]["completion_tokens"]
