"""The load of `tests.chaos.sandbox_kill`: code of two accounts that runs, through a gateway."""

import contextlib
import json
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.integration.cells.gateway_cell import CHAT, Cell
from tests.integration.cells.stored_cell import V1, messages_sent
from tests.integration.sandbox.machine_leftovers import processes_of_users

from penstock.testing import ScriptedEngine

Body = dict[str, Any]
MARK = "only-one-account-knows-this"
_CONTAINERS = "/v1/containers"
# How long a host that did not answer is left alone by gateways, and some more.
_LEFT_OUT_SECONDS = 15.0
# Looks for what containers have written, wherever one can read and another could write.
_SEARCH = f"""
import os
found = set()
for top in ('/mnt', '/tmp', '/dev/shm', '/var/tmp', '/home', '/run', '/root', '/proc/1/root/mnt'):
    for folder, _, names in os.walk(top):
        for name in names:
            try:
                text = open(os.path.join(folder, name), errors='replace').read(10**6)
            except OSError:
                continue
            if {MARK!r} in text:
                found.add(text)
print('found', sorted(found), flush=True)
"""
_RUN_LONG = "open('made.txt', 'w').write(open('own.txt').read())\nimport time\ntime.sleep(120)"


class RunningCode(msgspec.Struct):
    """One container, its account, and the response whose code runs in it."""

    key: str
    mark: str
    container: str = ""
    file: str = ""
    response: str = ""
    # When the stream said that the code's item has ended, and how.
    ended_at: float = 0.0
    item: Body = {}
    last: Body = {}


class KillLoad:
    """Asks for containers and code with the keys of two accounts, in turns."""

    def __init__(self, cell: Cell, engine: ScriptedEngine, count: int) -> None:
        self._cell = cell
        self._engine = engine
        self._keys = (cell.key, cell.add_account("second")[2])
        self._count = count
        self._threads = ThreadPoolExecutor(count)
        self._client = httpx.Client(
            base_url=cell.gateway.url, timeout=150, trust_env=False,
            limits=httpx.Limits(max_connections=2 * count),
        )  # fmt: skip

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def start(self) -> list[tuple[RunningCode, Future[None]]]:
        """Start a container for each, with a file of its account, and code that runs on."""
        running = [
            RunningCode(self._keys[number % 2], f"{MARK} {number}") for number in range(self._count)
        ]
        # Few at a time: each that starts takes CPU.
        with ThreadPoolExecutor(4) as few:
            list(few.map(self._start_container, running))
        return [(each, self._threads.submit(self._run_code, each)) for each in running]

    def tell(self, each: RunningCode) -> str:
        """Go on from a response that has ended; return what the model is told of its code."""
        body = {"model": CHAT, "input": "And?", "previous_response_id": each.response}
        answer = self._post(each.key, V1, body)
        assert answer.status_code == 200, answer.text
        told = [message for message in messages_sent(self._engine) if message["role"] == "tool"]
        return "".join(str(message["content"]) for message in told)

    def readable_by_others(self, each: RunningCode) -> list[str]:
        """Return the pages of a container that the other account can read."""
        other = next(key for key in self._keys if key != each.key)
        container = f"{_CONTAINERS}/{each.container}"
        pages = (container, f"{container}/files", f"{container}/files/{each.file}/content")
        return [page for page in pages if self._get(other, page).status_code != 404]

    def is_kept(self, each: RunningCode) -> bool:
        """Return whether the account itself can read its file."""
        path = f"{_CONTAINERS}/{each.container}/files/{each.file}/content"
        return self._get(each.key, path).content == each.mark.encode()

    def search(self, number: int) -> str:
        """Look for files of others in a new container; return what the code printed."""
        key = self._keys[number % 2]
        body = _asked(_SEARCH, {"type": "auto"})
        deadline = time.monotonic() + _LEFT_OUT_SECONDS
        while True:
            answer = self._post(key, V1, body)
            assert answer.status_code == 200, answer.text
            item = answer.json()["output"][0]
            if item["status"] == "completed" or time.monotonic() > deadline:
                return _logs(item)
            time.sleep(0.5)

    def _start_container(self, each: RunningCode) -> None:
        made = self._post(each.key, _CONTAINERS, {"name": "killed"})
        assert made.status_code == 200, made.text
        each.container = made.json()["id"]
        added = self._client.post(
            f"{_CONTAINERS}/{each.container}/files",
            files={"file": ("own.txt", each.mark.encode())},
            headers=_authorization(each.key),
        )
        assert added.status_code == 200, added.text
        each.file = added.json()["id"]

    def _run_code(self, each: RunningCode) -> None:
        body = {**_asked(_SEARCH + _RUN_LONG, each.container), "stream": True}
        with self._client.stream(
            "POST", V1, content=json.dumps(body), headers=_authorization(each.key)
        ) as answer:
            assert answer.status_code == 200, answer.read()
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    _take(each, json.loads(line.removeprefix("data: ")))

    def _post(self, key: str, path: str, body: Body) -> httpx.Response:
        return self._client.post(path, content=json.dumps(body), headers=_authorization(key))

    def _get(self, key: str, path: str) -> httpx.Response:
        return self._client.get(path, headers=_authorization(key))


def _take(each: RunningCode, event: Body) -> None:
    kind = event["type"]
    if kind == "response.created":
        each.response = event["response"]["id"]
    elif kind == "response.output_item.done":
        item = event["item"]
        if item["type"] == "code_interpreter_call":
            each.ended_at, each.item = time.monotonic(), item
    elif "response" in event:
        each.last = event["response"]


def marks_written(users: range) -> set[str]:
    """The marks in files that running code has written, seen from the host as root."""
    marks = set()
    for id in processes_of_users(users):
        # Processes end meanwhile.
        with contextlib.suppress(OSError):
            marks.add(Path(f"/proc/{id}/root/mnt/data/made.txt").read_text())
    return marks


def found_by(item: Body) -> str:
    """What the code of an item found of others; it looks before it does anything else."""
    return _logs(item).partition("\n")[0]


def _logs(item: Body) -> str:
    return "".join(each.get("logs", "") for each in item.get("outputs") or ())


def _asked(code: str, container: object) -> Body:
    call = f"CALL python {json.dumps({'code': code})}"
    tool = {"type": "code_interpreter", "container": container}
    include = ["code_interpreter_call.outputs"]
    return {"model": CHAT, "input": call, "tools": [tool], "include": include}


def _authorization(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
