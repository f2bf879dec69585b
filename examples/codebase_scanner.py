"""Looks for bugs in a repository over the asynchronous API: one job for each file, at half price.

Each is a submission of its own (`queueRequest`), not a line in a file for `/v1/batches`: so its
idempotency key can be made of its content. A scan that was stopped finds its jobs again, and after
an edit only what has changed is scanned, and paid, anew.
"""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress
from rich.table import Table

# The same for every file, and in front of it: an engine reads it once and has it cached from then.
INSTRUCTION = """You review one source file of a larger program. Report only real faults that a \
careful engineer would fix before a release:
- wrong results: off-by-one, wrong operator, swapped arguments, a case that nobody handles
- failures: an exception that can escape, a resource that is not closed, a lock that is not released
- races: state that is shared between threads or tasks without protection
- security: input that reaches a shell, a query, a path or a template unchecked; a secret in a log
Do not report style, naming, missing comments, missing tests or what you cannot see in this file.
For each fault give the line, how bad it is, and one sentence that says what goes wrong and when.
Report nothing where there is nothing: an empty list is a good answer."""

FINDING = {
    "type": "object",
    "properties": {
        "line": {"type": "integer", "minimum": 1},
        "severity": {"enum": ["high", "medium", "low"]},
        "fault": {"type": "string", "maxLength": 400},
    },
    "required": ["line", "severity", "fault"],
}
FINDINGS = {
    "type": "object",
    "properties": {"findings": {"type": "array", "items": FINDING, "maxItems": 20}},
    "required": ["findings"],
}
ASKED_AT_ONCE = 16
POLL_SECONDS = 0.5

console = Console(highlight=False, markup=False)


class Scan:
    """The submissions of one folder to one model, and the answers that have come."""

    def __init__(self, http: httpx.Client, account: str, model: str, folder: Path) -> None:
        self._http = http
        self._path = f"/client/v4/accounts/{account}/ai/run/{model}?queueRequest=true"
        self._folder = folder
        # The same name for the same scan, so that its bill is found under one name.
        self.session = f"scan-{_digest(str(folder.resolve()), self._path)[:16]}"

    def submit(self, file: Path) -> str:
        """The request's id: a new one, or that of an earlier scan which sent the same."""
        lines = file.read_text(errors="replace").splitlines()
        numbered = "\n".join(f"{number} {line}" for number, line in enumerate(lines, 1))
        chat = {
            "messages": [
                {"role": "system", "content": INSTRUCTION},
                {"role": "user", "content": f"{self.name(file)}\n\n{numbered}"},
            ],
            "max_tokens": 4000,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "findings", "schema": FINDINGS},
            },
        }
        key = _digest(self._path, json.dumps(chat))
        headers = {"idempotency-key": key, "x-session-affinity": self.session}
        request_id: str = self._run(chat, headers)["request_id"]
        return request_id

    def name(self, file: Path) -> str:
        return str(file.relative_to(self._folder))

    def answer(self, request_id: str) -> dict[str, Any] | None:
        """The job's end, `{"success": …, "result" or "error": …}`; None while it is on its way."""
        said = self._run({"request_id": request_id}, {})
        return said["responses"][0] if "responses" in said else None

    def _run(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        said = self._http.post(self._path, json=body, headers=headers)
        if said.is_error:
            sys.exit(f"{said.status_code}: {said.json()['errors'][0]['message']}")
        result: dict[str, Any] = said.json()["result"]
        return result


def choose(folder: Path, pattern: str, files_max: int, file_bytes_max: int) -> list[Path]:
    """What is scanned: no hidden files, none that is too large, and not too many."""
    paths = sorted(path for path in folder.rglob(pattern) if path.is_file())
    seen = [path for path in paths if not any(p[0] == "." for p in path.relative_to(folder).parts)]
    small = [path for path in seen if 0 < path.stat().st_size <= file_bytes_max]
    left_out = len(seen) - len(small[:files_max])
    console.print(f"{len(small[:files_max])} files of {len(seen)}; {left_out} left out.")
    return small[:files_max]


def collect(scan: Scan, waiting: dict[str, Path]) -> dict[Path, dict[str, Any]]:
    """Every file's end, with a bar that shows how many there are."""
    ended: dict[Path, dict[str, Any]] = {}
    with Progress(*Progress.get_default_columns(), MofNCompleteColumn(), console=console) as bar:
        task = bar.add_task("scanning", total=len(waiting))
        while waiting:
            before = len(ended)
            # They end about in the order in which they were sent: ask for the oldest ones.
            for request_id in list(waiting)[:ASKED_AT_ONCE]:
                answer = scan.answer(request_id)
                if answer is not None:
                    ended[waiting.pop(request_id)] = answer
            bar.update(task, completed=len(ended))
            if len(ended) == before:
                time.sleep(POLL_SECONDS)
    return ended


def findings_of(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Lines, severities and faults; a job that failed is one too, for somebody must look."""
    if not answer["success"]:
        return [("-", "failed", answer["error"]["message"])]
    text = answer["result"]["choices"][0]["message"]["content"] or ""
    try:
        found = json.loads(text)["findings"]
        return [(str(each["line"]), each["severity"], each["fault"]) for each in found]
    except (KeyError, TypeError, ValueError):
        return [("-", "failed", f"The answer is not as it was asked for: {text[:80]!r}")]


def report(scan: Scan, ended: dict[Path, dict[str, Any]]) -> Table:
    table = Table("where", "severity", "fault", title="Findings")
    for file, answer in sorted(ended.items()):
        for line, severity, fault in findings_of(answer):
            table.add_row(f"{scan.name(file)}:{line}", severity, fault)
    return table


def bill(http: httpx.Client, session: str) -> Table:
    """What the runs of this scan have used in the last 24 hours; a job that is found is free."""
    said = http.get("/v1/usage", params={"session": session}).raise_for_status().json()
    table = Table(title="The last 24 hours", show_header=False)
    for row in said["rows"]:
        table.add_row("files scanned", f"{row['requests']:,}")
        table.add_row("prompt tokens", f"{row['prompt_tokens']:,}")
        table.add_row("of them cached", f"{row['cached_tokens']:,} ({row['hit_ratio'] or 0:.0%})")
        table.add_row("output tokens", f"{row['output_tokens']:,}")
        table.add_row("cost", f"${row['cost_usd']}")
        table.add_row("saved by caching", f"${row['saved_usd']}")
    return table


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def main(  # noqa: PLR0913 - each is an option of the command line
    folder: Annotated[Path, typer.Argument(help="What to scan.", exists=True, file_okay=False)],
    *,
    key: Annotated[str, typer.Option(envvar="KEY")],
    account: Annotated[str, typer.Option(envvar="ACCOUNT")],
    url: Annotated[str, typer.Option(envvar="URL")] = "http://127.0.0.1:8787",
    model: Annotated[str, typer.Option()] = "default",
    pattern: Annotated[str, typer.Option(help="Which files.")] = "*.py",
    files_max: Annotated[int, typer.Option(min=1, max=2000)] = 200,
    file_bytes_max: Annotated[int, typer.Option(min=1, max=1_000_000)] = 60_000,
) -> None:
    """Scan a folder for faults, while engines have nothing better to do."""
    headers = {"authorization": f"Bearer {key}", "x-penstock-workflow": "codebase-scanner"}
    with httpx.Client(base_url=url, headers=headers, timeout=60) as http:
        scan = Scan(http, account, model, folder)
        files = choose(folder, pattern, files_max, file_bytes_max)
        ended = collect(scan, {scan.submit(file): file for file in files})
        found = report(scan, ended)
        console.print(found if found.row_count else "Nothing was found.")
        console.print(bill(http, scan.session))


if __name__ == "__main__":
    typer.run(main)
