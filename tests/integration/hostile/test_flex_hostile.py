"""Values that Postgres or a parser will not have, at every door of flex: told 4xx, never 500."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.batch_cell import (
    QUICK,
    line,
    lines_in,
    run_jobs,
    sdk,
    start_batch,
    wait_for,
)
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory

from penstock.clock import new_id

_NUL = "a\0b"
_HALF = b"\\ud800"
_IDS = ("x", "%00", "a%00b", "%ED%A0%80", "9" * 300, new_id().upper(), "batch_" + "0" * 32)
_PAGES = (
    "/v1/jobs/{}", "/v1/files/{}", "/v1/files/{}/content", "/v1/batches/{}",
    "/v1/jobs?after={}", "/v1/jobs?batch={}", "/v1/jobs?model={}", "/v1/jobs?account={}",
    "/v1/jobs?limit={}", "/v1/jobs?state={}", "/v1/files?after={}", "/v1/files?purpose={}",
    "/v1/files?limit={}", "/v1/files?order={}", "/v1/batches?after={}", "/v1/batches?limit={}",
    "/v1/webhook_endpoints/{}",
)  # fmt: skip


@pytest.fixture(scope="module")
def hostile_flex(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({**QUICK, "ingress.job_poll_seconds": 0.05}) as cell:
        cell.set_up(CHAT)
        yield cell


def ask(cell: Cell, method: str, path: str, **given: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {cell.key}", **given.pop("headers", {})}
    url = f"{cell.gateway.url}{path}"
    return httpx.request(method, url, headers=headers, timeout=20, trust_env=False, **given)


@pytest.mark.parametrize("page", _PAGES)
def test_page_takes_any_name(hostile_flex: Cell, page: str) -> None:
    statuses = [ask(hostile_flex, "GET", page.format(id)).status_code for id in _IDS]
    assert max(statuses) < 500, dict(zip(_IDS, statuses, strict=True))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/jobs/{}/cancel"),
        ("DELETE", "/v1/jobs/{}"),
        ("POST", "/v1/batches/{}/cancel"),
        ("DELETE", "/v1/files/{}"),
    ],
)
def test_nothing_is_changed_by_a_name_that_is_none(
    hostile_flex: Cell, method: str, path: str
) -> None:
    statuses = {ask(hostile_flex, method, path.format(id)).status_code for id in _IDS}
    assert statuses <= {404, 405}


@pytest.mark.parametrize(
    "body",
    [
        {"model": _NUL}, {"model": CHAT, "user": _NUL}, {"model": CHAT, "prompt_cache_key": _NUL},
        {"model": CHAT, "metadata": {"workflow": _NUL}}, {"model": CHAT, "max_tokens": 10**30},
        {"model": CHAT, "max_tokens": 2**62}, {"model": CHAT, "n": 2**31},
        {"model": CHAT, "n": 1e9},
    ],
)  # fmt: skip
@pytest.mark.parametrize("door", ["flex", "prefer", "queue", "task"])
def test_job_of_odd_values_is_taken_or_refused(
    hostile_flex: Cell, body: dict[str, Any], door: str
) -> None:
    chat: dict[str, Any] = {"messages": [{"role": "user", "content": _NUL}], **body}
    headers: dict[str, str] = {"x-session-affinity": "\xe9" * 200}
    path = "/v1/chat/completions"
    if door in ("flex", "prefer"):
        # Not waited for: nobody runs it here.
        headers["prefer"] = "respond-async"
        chat |= {"service_tier": "flex"} if door == "flex" else {}
    elif door == "queue":
        path = hostile_flex.path(f"run/{CHAT}?queueRequest=true")
        chat = {"requests": [chat | {"external_reference": "\u20ac"}]}
    else:
        path = hostile_flex.path(f"run/{CHAT}")
        headers["cf-aig-async"] = "true"
    content = json.dumps(chat).encode()
    answer = ask(
        hostile_flex, "POST", path, content=content,
        headers={k: v.encode("latin-1") for k, v in headers.items()},
    )  # fmt: skip
    assert answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "content",
    [
        b'{"requests":[{"prompt":"x","external_reference":"a\\u0000b"}]}',
        b'{"requests":[{"prompt":"x","external_reference":"' + _HALF + b'"}]}',
        b'{"requests":[{"prompt":"x","external_reference":7}]}',
        b'{"requests":[{"prompt":"' + _HALF + b'"}]}',
        b'{"requests":[]}', b'{"requests":{}}', b'{"requests":[null]}', b'{"requests":[[]]}',
        b'{"request_id":"a\\u0000b"}', b'{"request_id":7}', b'{"request_id":"' + _HALF + b'"}',
    ],
)  # fmt: skip
def test_queued_body_of_odd_values_is_refused(hostile_flex: Cell, content: bytes) -> None:
    path = hostile_flex.path(f"run/{CHAT}?queueRequest=true")
    answer = ask(hostile_flex, "POST", path, content=content)
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "kind",
    [
        "multipart/form-data; boundary=" + "b" * 300, "multipart/form-data; boundary=",
        "multipart/form-data; boundary=\xff", "multipart/form-data", "text/plain", "",
        "multipart/form-data; boundary*=utf-8''%00",
    ],
)  # fmt: skip
def test_upload_with_an_odd_boundary_is_refused(hostile_flex: Cell, kind: str) -> None:
    headers = {"content-type": kind.encode("latin-1")}
    answer = ask(hostile_flex, "POST", "/v1/files", content=b"--b\r\n", headers=headers)
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"input_file_id": _NUL}, {"metadata": {_NUL: "x"}}, {"metadata": {"x": _NUL}},
        {"metadata": {"x": 7}}, {"metadata": []}, {"endpoint": _NUL}, {"completion_window": 24},
        {"output_expires_after": {"anchor": "created_at", "seconds": 10**30}},
        {"output_expires_after": {"anchor": _NUL, "seconds": 3600}}, {"input_file_id": "x" * 200},
    ],
)  # fmt: skip
def test_batch_of_odd_values_is_refused(hostile_flex: Cell, change: dict[str, Any]) -> None:
    body = {
        "input_file_id": "file-x", "endpoint": "/v1/chat/completions", "completion_window": "24h",
    }  # fmt: skip
    answer = ask(hostile_flex, "POST", "/v1/batches", json={**body, **change})
    assert 400 <= answer.status_code < 500, answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"url": "https://a\0b.example/"}, {"url": 7}, {"url": "https://" + "a" * 5000},
        {"name": _NUL}, {"name": 7}, {"event_types": [_NUL]}, {"event_types": "x"},
    ],
)  # fmt: skip
def test_webhook_of_odd_values_is_refused(hostile_flex: Cell, change: dict[str, Any]) -> None:
    body = {"url": "https://example.com/hook", "name": "n", "event_types": ["job.succeeded"]}
    answer = ask(hostile_flex, "POST", "/v1/webhook_endpoints", json={**body, **change})
    assert answer.status_code == 400, answer.text


def test_odd_lines_fail_alone(hostile_flex: Cell) -> None:
    client = sdk(hostile_flex)
    lines = [
        line("good"),
        line(_NUL),
        line(_NUL, url="/v1/elsewhere"),
        line("nul-model", model=_NUL),
        line("nul-param", body={"model": CHAT, "messages": [], _NUL: 1}),
        line("half").replace("half", "\\ud800"),
        line("last"),
    ]
    batch = start_batch(client, *lines)
    wait_for(client, batch, "in_progress")
    assert run_jobs(hostile_flex, models=(CHAT,)) >= 2
    done = wait_for(client, batch, "completed")
    answered = {each["custom_id"] for each in lines_in(client, done.output_file_id)}
    assert {"good", "last"} <= answered
    failed = lines_in(client, done.error_file_id)
    assert len(failed) + len(answered) == len(lines)
